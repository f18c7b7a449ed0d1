"""Describe models, and count their parameters and FLOPs.

- `description.Model` is what a model is, as frozen values;
- `huggingface.model_of_config(read_config(path), seq_length)` reads one from a `config.json`;
- `counting.parameters(model)` and `counting.count_flops(model, sequences=...)` count;
- `parts.parts(model)` lists the tensors and products that all counts are sums of.
"""

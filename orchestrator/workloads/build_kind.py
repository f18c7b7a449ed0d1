"""Print a name for the platform of compiled torch extensions: Python, torch, CUDA, CPU, GPUs."""

# Job scripts contain this text, for Pythons from 3.6 on. Arguments: files on the CPU and the GPUs.
import hashlib
import re
import sys
from importlib.util import find_spec
from pathlib import Path

VERSION = r"(?m)^(?:__version__|cuda|hip)\b[^=]*= *[\x22\x27](.+)[\x22\x27]"
KEPT = r"(?m)^(?:vendor_id|model|model name|flags|CPU \w+|Features|Model)\s*:.*|^gfx_target.*"
specs = [find_spec(name) for name in ("torch", "deepspeed")]
folders = [Path(spec.origin).parent for spec in specs if spec and spec.origin]
texts = [file.read_text("utf-8") for folder in folders for file in folder.glob("version.py")]
files = [Path(name) for name in sys.argv[1:] if Path(name).is_file()]
machine = [file.read_text("utf-8", "replace").split("\n\n")[0] for file in files]
exact = [sys.version, *texts, *sorted(set(re.findall(KEPT, "\n".join(machine))))]
for folder in folders:
    exact += [str(folder), *sorted(path.name for path in folder.parent.glob("deepspeed-*-info"))]
digest = hashlib.sha256("\n".join(exact).encode()).hexdigest()[:10]
torch = re.findall(VERSION, texts[0]) if specs[0] and texts else ["none"]
print("-".join([str(sys.implementation.cache_tag), "torch", *torch, digest]))

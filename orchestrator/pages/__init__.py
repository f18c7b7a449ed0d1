"""Tables in pages that people wrote: reading them, mending them, checking them."""

"""Settings of the documentation site; `make docs` builds it."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

project = "teralog"
author = "the teralog authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["_build", "recorded"]

# Links go to headings too: page.md#a-heading.
myst_heading_anchors = 4
# Help texts of commands mark code with single backticks.
default_role = "code"
myst_enable_extensions = ["colon_fence"]
# Names of types that no page of this site describes.
autodoc_typehints = "none"
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = "teralog"
html_theme_options = {"navigation_with_keys": True}
# Pages are complete without the sources next to them.
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"

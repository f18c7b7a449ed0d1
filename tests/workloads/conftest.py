"""What tests of several programs share."""

import sys
from pathlib import Path

# Where tests find how programs are launched: tests are no package.
sys.path.append(str(Path(__file__).parent))

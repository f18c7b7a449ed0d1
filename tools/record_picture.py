"""Write docs/images/report.png: a screenshot of the HTML report of examples/zero-stages.yaml.

`make picture` runs this tool after `make demo`. The tool needs Chromium and the extra `html`.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
REPORT = ROOT / "results" / "zero-stages" / "report.html"
PICTURE = ROOT / "docs" / "images" / "report.png"

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SIZE = {"width": 1200, "height": 860}


def main() -> None:
    """Open the page and save a screenshot of its first screen."""
    program = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if program is None:
        sys.exit("record_picture: Chromium is missing; type: apt-get install chromium")
    PICTURE.parent.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        page = browser.new_page(viewport=_SIZE)
        page.goto(REPORT.as_uri())
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(1000)
        page.screenshot(path=PICTURE)
        browser.close()
    print(f"wrote {PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()

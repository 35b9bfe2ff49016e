"""The start page of the site: the README, with links as they are on the site."""

import re
from pathlib import Path

from mkdocs.structure.files import File, Files

README = Path(__file__).parents[1] / "README.md"
LINK = re.compile(r"(\]\()([^):#]+)")  # of the repository: neither an address nor an anchor


def on_files(files: Files, *, config) -> Files:
    """Adds the page ``index.md``."""

    def site_link(match: re.Match) -> str:
        path = match[2]
        path = path.replace("docs/reference/", "docs/api/")
        if path.startswith("docs/") and path.endswith((".md", ".gif", ".png")):
            return match[1] + path.removeprefix("docs/")
        return f"{match[1]}{config['repo_url']}/blob/main/{path}"

    text = LINK.sub(site_link, README.read_text())
    files.append(File.generated(config, "index.md", content=text))
    return files

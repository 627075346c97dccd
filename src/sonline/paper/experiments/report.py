"""One page with everything: self-contained HTML, and Markdown for the documentation."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from sonline.paper.experiments.conventions import IN_WORDS
from sonline.paper.experiments.exhibit import Exhibit

TITLE = "Efficient Second Order Online Learning by Sketching, reproduced"

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 1rem 0; display: block;
  overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #8884; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; background: white; }
"""


def write_reports(
    exhibits: Sequence[Exhibit], environment: Mapping[str, str], folder: Path
) -> None:
    """Write report.html and report.markdown into the folder that holds the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(exhibits, environment)
    (folder / "report.markdown").write_text(text)
    (folder / "report.html").write_text(html(text, folder))


def missing(exhibits: Sequence[Exhibit]) -> list[str]:
    """Return the data sets that were not there, each once."""
    return list(dict.fromkeys(name for exhibit in exhibits for name in exhibit.missing))


def html(text: str, folder: Path) -> str:
    """Return the page of a report in Markdown, pictures included."""
    conventions = "\n".join(f"- {line}" for line in IN_WORDS)
    page = f"# {TITLE}\n\n## Conventions\n\n{conventions}\n\n{text}"
    body = MarkdownIt().enable("table").render(page)

    def embedded(match: re.Match[str]) -> str:
        data = base64.b64encode((folder / match[1]).read_bytes()).decode()
        return f'src="data:image/png;base64,{data}"'

    body = re.sub(r'src="([^":/]+\.png)"', embedded, body)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{TITLE}'
        f"</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def markdown(exhibits: Sequence[Exhibit], environment: Mapping[str, str]) -> str:
    """Return everything as Markdown, with links to the PNG files beside it."""
    machine = "; ".join(f"{key} {text}" for key, text in environment.items())
    parts = [f"Measured with: {machine}.\n"]
    if absent := missing(exhibits):
        parts.append(f"Missing data sets, left out: {', '.join(absent)}.\n")
    for exhibit in exhibits:
        parts.append(f"## {exhibit.title}\n")
        parts += [paragraph + "\n" for paragraph in exhibit.paragraphs]
        if exhibit.draw is not None:
            parts.append(f"![{exhibit.title}]({exhibit.name}.png)\n")
        parts += [table.markdown() for table in exhibit.tables]
    return "\n".join(parts)

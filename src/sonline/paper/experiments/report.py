"""One page with everything: self-contained HTML, and Markdown for the documentation."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

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
caption { text-align: left; font-weight: 600; }
img { max-width: 100%; background: white; }
.missing { color: #b33; }
"""


def write_reports(
    exhibits: Sequence[Exhibit], environment: Mapping[str, str], folder: Path
) -> None:
    """Write report.html and report.markdown into the folder that holds the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(html(exhibits, environment, folder))
    (folder / "report.markdown").write_text(markdown(exhibits, environment))


def missing(exhibits: Sequence[Exhibit]) -> list[str]:
    """Return the data sets that were not there, each once."""
    return list(dict.fromkeys(name for exhibit in exhibits for name in exhibit.missing))


def html(exhibits: Sequence[Exhibit], environment: Mapping[str, str], folder: Path) -> str:
    """Return the page, pictures included."""
    parts = [
        f"<h1>{escape(TITLE)}</h1>",
        "<h2>Conventions</h2><ul>",
        *(f"<li>{escape(line)}</li>" for line in IN_WORDS),
        "</ul><h2>Machine and versions</h2><ul>",
        *(f"<li>{escape(key)}: {escape(text)}</li>" for key, text in environment.items()),
        "</ul>",
    ]
    if absent := missing(exhibits):
        parts.append(
            f'<p class="missing">Missing data sets: {escape(", ".join(absent))}. Their rows are '
            "left out.</p>"
        )
    for exhibit in exhibits:
        parts.append(f'<h2 id="{escape(exhibit.name)}">{escape(exhibit.title)}</h2>')
        parts += [f"<p>{escape(paragraph)}</p>" for paragraph in exhibit.paragraphs]
        picture = folder / f"{exhibit.name}.svg"
        if exhibit.draw is not None and picture.exists():
            data = base64.b64encode(picture.read_bytes()).decode()
            parts.append(
                f'<img alt="{escape(exhibit.title)}" src="data:image/svg+xml;base64,{data}">'
            )
        parts += [table.html() for table in exhibit.tables]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(TITLE)}'
        f"</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def markdown(exhibits: Sequence[Exhibit], environment: Mapping[str, str]) -> str:
    """Return the same as Markdown, with links to the PNG files beside it."""
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

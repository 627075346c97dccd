"""Run the demonstration and update the picture and the table of the README.

Usage: python tools/readme.py. Without running it again: --table-only.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "_static" / "demo.json"
PICTURE = RESULTS.with_suffix(".png")
BEGIN, END = "<!-- demo: begin -->\n", "<!-- demo: end -->\n"


def table(results: dict[str, object]) -> str:
    """Return the results as a table in Markdown."""
    contenders = results["contenders"]
    assert isinstance(contenders, list)
    kappas = [result["kappa"] for result in contenders[0]["results"]]
    lines = [
        "| error (rows predicted wrongly) if variances differ by a factor of | "
        + " | ".join(f"{kappa:,}×" for kappa in kappas)
        + " |",
        "|---" * (len(kappas) + 1) + "|",
    ]
    for contender in contenders:
        tried = contender["settings_tried"]
        name = f"{contender['name']}, best of {tried} settings in each column"
        if tried == 1:
            typed = contender["results"][0]["parameters"].items()
            arguments = ", ".join(f'{key}="{value}"' for key, value in typed)
            name = f"`OnlineLearner({arguments})`, not tuned"
        rates = " | ".join(
            f"{100 * result['error']:.1f}\N{NO-BREAK SPACE}%" for result in contender["results"]
        )
        lines.append(f"| {name} | {rates} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the demonstration, unless --table-only is set; rewrite the table."""
    if "--table-only" not in sys.argv[1:]:
        program = Path(sysconfig.get_path("scripts"), "sonline")
        command = [str(program), "demo", "--json", "--out", str(PICTURE.relative_to(ROOT))]
        RESULTS.write_bytes(subprocess.check_output(command, cwd=ROOT))
    readme = ROOT / "README.md"
    before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    text = table(json.loads(RESULTS.read_text(encoding="utf-8")))
    readme.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

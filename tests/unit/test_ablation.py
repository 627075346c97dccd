"""`make ablation`: its list of mechanisms, and what its tables say."""

import re
from pathlib import Path

from benchmarks import ablation, ablation_report

CPP = Path(__file__).parents[2] / "cpp" / "sonline"


def test_every_mechanism_can_be_taken_away_and_is_listed():
    header = (CPP / "ablation.hpp").read_text(encoding="utf-8")
    names = re.search(r"kNames\[\] = \{([^}]*)\}", header)
    defined = set(re.findall(r'"(\w+)"', names[1]))
    used = {"implicit_step"}  # ablation.hpp itself takes it away
    for path in CPP.rglob("*.?pp"):
        if path.name != "ablation.hpp":
            used |= set(re.findall(r"SONLINE_KEEPS\((\w+)\)", path.read_text(encoding="utf-8")))
    listed = {name for removal in ablation.REMOVALS for name in removal.without.split(",") if name}
    assert defined == used == listed
    assert len({removal.name for removal in ablation.ALL}) == len(ablation.ALL)


def scores(error, log_loss):
    return {"progressive": {"error": error, "log loss": log_loss}, "seconds": 1.0}


def test_tables_are_sorted_by_the_largest_loss_of_a_kind():
    run = {
        "kinds": {"a": "tables", "b": "tables", "c": "text"},
        "rows": {"a": 10**9, "b": 10**9, "c": 10**9},
        "removals": {
            "default": {
                "scores": dict.fromkeys("abc", scores(0.1, 0.2)),
                "instructions": {"dense": 100, "wide": 100},
            },
            "little": {
                "instead": "none",
                "scores": dict.fromkeys("abc", scores(0.1, 0.201)),
                "instructions": {"dense": 90, "wide": 120},
            },
            "much": {
                "instead": "1",
                "scores": {
                    "a": scores(0.2, 0.2),
                    "b": scores(0.2, 0.2),
                    "c": {"failed": "it diverged"},
                },
            },
        },
    }
    lines = ablation_report.tables(run).splitlines()
    assert lines[2].startswith("| much | 1 | +100.0 ± 0 error, tables |")
    assert "1 fail" in lines[2]
    assert lines[3].startswith("| little | none | +0.50")
    assert lines[3].endswith("| -10.0, +20.0 |")

"""A process that sends events to an engine from several threads and is killed while it does.

Prints a line for every event that was acknowledged: ``learn id`` or ``label id``.
"""

import itertools
import os
import sys
import threading
from pathlib import Path

from helpers_service import drawn, make, to_learn, to_predict

from sonline.service.bodies import LabelRow
from sonline.service.settings import Settings


def work(engine, name, say):
    for turn in itertools.count():
        part = drawn(7, seed=turn, prefix=f"{name}-{turn}-")
        engine.predict(to_predict([{"id": r["id"], "x": r["x"]} for r in part[:2]]))[1].result()
        engine.learn(to_learn(part[2:])).result()
        say("".join(f"learn {row['id']}\n" for row in part[2:]))
        engine.label([LabelRow(row["id"], row["y"], 2.0) for row in part[:2]]).result()
        say("".join(f"label {row['id']}\n" for row in part[:2]))


def main():
    folder, turn = Path(sys.argv[1]), sys.argv[2]
    settings = Settings(snapshot_events=2000, snapshot_seconds=0.2)
    engine = make(folder, settings=settings)

    def say(text):
        os.write(1, text.encode())  # a pipe takes a few lines as a whole

    say("ready\n")
    for number in range(3):
        threading.Thread(target=work, args=(engine, f"{turn}-{number}", say), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()

"""A real browser that is told what to do: Chromium over its debugging pipe."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def browsed(folder: Path, page: Path, *options: str) -> tuple[str, list[str]]:
    """Open a page, from which nothing reaches a network; what the browser printed, and what the page logged."""
    command = [
        str(CHROMIUM),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}",
        *options,
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


class Browser:
    """One page, until the block ends."""

    def __init__(self, folder: Path, width: int = 1200, height: int = 900) -> None:
        ours, theirs = os.pipe(), os.pipe()  # commands to it, answers from it
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += ["--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}"]
        command = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *options], pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._out, self._in = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")
        self._numbers, self._rest = itertools.count(1), b""
        target = self._ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        asked = {"targetId": target, "flatten": True}
        self._session = self._ask("Target.attachToTarget", asked)["sessionId"]
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", screen)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._out.close()
        self._in.close()

    def _ask(self, method: str, given: dict[str, Any], session: str | None = None) -> Any:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": given}
        if session:
            message["sessionId"] = session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            while b"\0" not in self._rest:
                self._rest += os.read(self._in.fileno(), 1 << 20)
            told, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(told)
            if answer.get("id") == number:
                return answer["result"]

    def ask(self, method: str, given: dict[str, Any]) -> Any:
        """One command of the protocol, to the page."""
        return self._ask(method, given, self._session)

    def run(self, script: str) -> Any:
        """What a script on the page returns."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        return self.ask("Runtime.evaluate", asked)["result"].get("value")

    def open(self, path: Path) -> None:
        """Show a file."""
        self.ask("Page.navigate", {"url": path.as_uri()})
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait_for(self, script: str, seconds: float = 120.0) -> None:
        """Until a script on the page returns something true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"{script} did not come true"
            time.sleep(0.1)

    def picture(self, path: Path) -> None:
        """What is to be seen."""
        shot = self.ask("Page.captureScreenshot", {"format": "png"})
        path.write_bytes(base64.b64decode(shot["data"]))

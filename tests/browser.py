"""Real browsers that are told what to do: Chromium over its debugging pipe, Firefox by WebDriver BiDi."""

from __future__ import annotations

import abc
import base64
import itertools
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FIREFOX = next(filter(None, map(shutil.which, ("firefox", "firefox-esr"))), None)


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


class Browser(abc.ABC):
    """One page, until the block ends. What it downloads comes into `downloads`."""

    downloads: Path
    _process: subprocess.Popen[bytes]

    @abc.abstractmethod
    def run(self, script: str) -> Any:
        """What a script on the page returns."""

    @abc.abstractmethod
    def go(self, url: str) -> None:
        """Show an address."""

    @abc.abstractmethod
    def choose(self, selector: str, path: Path) -> None:
        """Give a file to an input."""

    @abc.abstractmethod
    def picture(self, path: Path) -> None:
        """What is to be seen."""

    @abc.abstractmethod
    def _close(self) -> None:
        """Let go of what the connection holds."""

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._close()

    def open(self, path: Path) -> None:
        """Show a file."""
        self.go(path.as_uri())
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait_for(self, script: str, seconds: float = 120.0) -> None:
        """Until a script on the page returns something true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"{script} did not come true"
            time.sleep(0.1)


class Chromium(Browser):
    """Over its debugging pipe."""

    def __init__(self, folder: Path, width: int = 1200, height: int = 900) -> None:
        ours, theirs = os.pipe(), os.pipe()  # commands to it, answers from it
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += ["--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}"]
        command = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, str(CHROMIUM), *options], pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL
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
        self.downloads = folder / "downloads"
        self.ask("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(self.downloads)})

    def _close(self) -> None:
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
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        return self.ask("Runtime.evaluate", asked)["result"].get("value")

    def go(self, url: str) -> None:
        self.ask("Page.navigate", {"url": url})

    def choose(self, selector: str, path: Path) -> None:
        root = self.ask("DOM.getDocument", {})["root"]["nodeId"]
        node = self.ask("DOM.querySelector", {"nodeId": root, "selector": selector})
        self.ask("DOM.setFileInputFiles", {"files": [str(path)], **node})

    def picture(self, path: Path) -> None:
        shot = self.ask("Page.captureScreenshot", {"format": "png"})
        path.write_bytes(base64.b64decode(shot["data"]))


class Firefox(Browser):
    """By WebDriver BiDi, over a web socket."""

    def __init__(self, folder: Path, width: int = 1200, height: int = 900) -> None:
        self.downloads, profile = folder / "downloads", folder / "profile"
        for each in (self.downloads, profile):
            each.mkdir()
        wanted = {"browser.download.folderList": 2, "browser.download.dir": str(self.downloads)}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in wanted.items()]
        (profile / "user.js").write_text("".join(lines))
        command = [str(FIREFOX), "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port=0"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, env={**os.environ, "HOME": str(folder)}, **quiet)
        told, end = profile / "WebDriverBiDiServer.json", time.monotonic() + 60
        while not told.exists() or not told.stat().st_size:
            assert time.monotonic() < end, "Firefox did not start"
            time.sleep(0.1)
        port = json.loads(told.read_text())["ws_port"]
        self._socket = socket.create_connection(("127.0.0.1", port))
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        asked = f"GET /session HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self._socket.sendall(f"{asked}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self._in, self._numbers = self._socket.makefile("rb"), itertools.count(1)
        while self._in.readline().strip():
            pass
        self.ask("session.new", {"capabilities": {}})
        self._page = self.ask("browsingContext.getTree", {})["contexts"][0]["context"]
        self.ask("browsingContext.setViewport", {**self._here, "viewport": {"width": width, "height": height}})

    @property
    def _here(self) -> dict[str, Any]:
        return {"context": self._page}

    def _close(self) -> None:
        self._in.close()
        self._socket.close()

    def ask(self, method: str, given: dict[str, Any]) -> Any:
        """One command of the protocol."""
        number = next(self._numbers)
        data = json.dumps({"id": number, "method": method, "params": given}).encode()
        layout, size = ("!BBH", 126) if len(data) < 1 << 16 else ("!BBQ", 127)
        head = struct.pack(layout, 0x81, 0x80 | size, len(data))
        if len(data) < 126:
            head = struct.pack("!BB", 0x81, 0x80 | len(data))
        mask = b"mask"  # Firefox wants one, and not of zeros
        self._socket.sendall(head + mask + bytes(x ^ y for x, y in zip(data, itertools.cycle(mask), strict=False)))
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                return answer["result"]

    def _message(self) -> bytes:
        """The next message, of one or more frames."""
        told = b""
        while True:
            first, size = self._in.read(2)
            if size >= 126:
                size = int.from_bytes(self._in.read(2 if size == 126 else 8), "big")
            told += self._in.read(size)
            if first & 0x80:
                return told

    def run(self, script: str) -> Any:
        asked = {"expression": script, "target": self._here, "awaitPromise": True}
        answer = self.ask("script.evaluate", asked)
        assert answer["type"] == "success", answer
        return _plain(answer["result"])

    def go(self, url: str) -> None:
        self.ask("browsingContext.navigate", {**self._here, "url": url, "wait": "complete"})

    def choose(self, selector: str, path: Path) -> None:
        query = {"type": "css", "value": selector}
        (node,) = self.ask("browsingContext.locateNodes", {**self._here, "locator": query})["nodes"]
        element = {"sharedId": node["sharedId"]}
        self.ask("input.setFiles", {**self._here, "element": element, "files": [str(path)]})

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.ask("browsingContext.captureScreenshot", self._here)["data"]))


def _plain(given: dict[str, Any]) -> Any:
    """A value of WebDriver BiDi."""
    value = given.get("value")
    if given["type"] == "array":
        return [_plain(each) for each in value]
    return {name: _plain(each) for name, each in value} if given["type"] == "object" else value


BROWSERS = [
    pytest.param(Chromium, marks=pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")),
    pytest.param(Firefox, marks=pytest.mark.skipif(FIREFOX is None, reason="no Firefox: apt-get install firefox-esr")),
]

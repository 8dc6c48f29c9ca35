"""Drives Chromium through its driver, over the W3C's WebDriver protocol."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DRIVER, BROWSER = "chromedriver", "chromium"
LIMIT_S = 30.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def is_installed() -> bool:
    """Whether Debian's packages chromium and chromium-driver are there."""
    return shutil.which(DRIVER) is not None and shutil.which(BROWSER) is not None


class Chromium:
    """One browser without a window."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        options = {
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"]
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{answer['sessionId']}"

    def _ask(self, method: str, path: str, content: dict[str, Any] | None = None) -> Any:
        answer = self._client.request(method, path, json=content)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def close(self) -> None:
        """End the browser."""
        self._ask("DELETE", self._session)

    def open(self, address: str) -> None:
        """Load a page."""
        self._ask("POST", f"{self._session}/url", {"url": address})

    def run(self, script: str) -> Any:
        """Run a script in the page; what it returns."""
        return self._ask("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def _find(self, selector: str) -> str:
        found = {"using": "css selector", "value": selector}
        element: str = self._ask("POST", f"{self._session}/element", found)[_ELEMENT]
        return element

    def click(self, selector: str) -> None:
        """Click what the selector finds."""
        self._ask("POST", f"{self._session}/element/{self._find(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Type into a field."""
        path = f"{self._session}/element/{self._find(selector)}/value"
        self._ask("POST", path, {"text": text})

    def press(self, key: str) -> None:
        """Press a key, where the focus is."""
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self._ask("POST", f"{self._session}/actions", {"actions": [keyboard]})

    def picture(self, path: Path) -> None:
        """Write a screenshot."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._ask("GET", f"{self._session}/screenshot")))

    def complaints(self) -> list[str]:
        """Errors of scripts and refusals of the content security policy."""
        logged = self._ask("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in logged if entry["level"] in ("SEVERE", "WARNING")]

    def until(self, script: str) -> None:
        """Wait until a script returns what is true."""
        _until(lambda: bool(self.run(script)))


def _until(is_true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < end_s, "the browser has not got there in time"
        time.sleep(0.05)


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser, and its driver behind it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as driver:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LIMIT_S * 2) as client:
                _until(lambda: _is_ready(client))
                browser = Chromium(client)
                try:
                    yield browser
                finally:
                    browser.close()
        finally:
            driver.terminate()


def _is_ready(client: httpx.Client) -> bool:
    try:
        return bool(client.get("/status").json()["value"]["ready"])
    except httpx.TransportError:
        return False

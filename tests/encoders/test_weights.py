"""Downloads from a server of our own: resumed, checked, refused; and what is said without a network."""

import hashlib
import http.server
import json
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from cual.encoders import weights
from cual.encoders.weights import Download, fetch, local
from cual.errors import BadFile, BadOption, DamagedFile, Unavailable

DATA = bytes(range(256)) * 5000


class Handler(http.server.BaseHTTPRequestHandler):
    ranges = True
    cut_after = None
    tag = '"v1"'
    asked: list = []  # noqa: RUF012

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        start = 0
        if wanted and self.ranges and self.headers.get("If-Range") == self.tag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        body = DATA[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", self.tag)
        self.end_headers()
        self.wfile.write(body if self.cut_after is None else body[: self.cut_after])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    class This(Handler):
        asked: list = []  # noqa: RUF012

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), This) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        yield This, f"http://127.0.0.1:{running.server_port}/files/net.pth?x=1"
        running.shutdown()
        thread.join()


SHA = hashlib.sha256(DATA).hexdigest()


def test_fetched_once_and_checked(server, tmp_path):
    handler, url = server
    told = []
    for _ in range(2):
        path = fetch(Download(url, SHA), tmp_path, progress=lambda *t: told.append(t))
        assert path == tmp_path / "net.pth"
        assert path.read_bytes() == DATA
    assert len(handler.asked) == 1
    assert told[-1] == ("fetching net.pth", len(DATA), len(DATA))
    assert not (tmp_path / weights.SEEN).exists()
    path.write_bytes(DATA + b"!")
    with pytest.raises(DamagedFile, match=r"net\.pth is refused: its SHA-256"):
        fetch(Download(url, SHA), tmp_path)


def test_goes_on_where_it_stopped(server, tmp_path):
    handler, url = server
    handler.cut_after = 300_000
    with pytest.raises(Unavailable, match="Give the command again"):
        fetch(Download(url, SHA), tmp_path)
    assert not (tmp_path / "net.pth").exists()
    handler.cut_after = None
    assert fetch(Download(url, SHA), tmp_path).read_bytes() == DATA
    assert handler.asked == [None, "bytes=300000-"]
    assert [p.name for p in tmp_path.iterdir() if p.name != ".lock"] == ["net.pth"]


@pytest.mark.parametrize("change", ["tag", "ranges"])
def test_begins_anew_where_it_cannot_go_on(server, tmp_path, change):
    handler, url = server
    handler.cut_after = 300_000
    with pytest.raises(Unavailable):
        fetch(Download(url, SHA), tmp_path)
    handler.cut_after = None
    setattr(handler, change, '"v2"' if change == "tag" else False)
    assert fetch(Download(url, SHA), tmp_path).read_bytes() == DATA


def test_a_wrong_hash_is_refused_and_not_kept(server, tmp_path):
    _, url = server
    with pytest.raises(DamagedFile, match="expected 0000"):
        fetch(Download(url, "0" * 64), tmp_path)
    assert [p.name for p in tmp_path.iterdir() if p.name != ".lock"] == []
    with pytest.raises(DamagedFile, match="expected 1111"):
        fetch(Download(url), tmp_path, sha256="1" * 64)


def test_without_a_known_hash_the_first_download_sets_it(server, tmp_path):
    _, url = server
    path = fetch(Download(url), tmp_path)
    assert json.loads((tmp_path / weights.SEEN).read_text()) == {url: SHA}
    path.write_bytes(b"something else")
    with pytest.raises(DamagedFile, match=f"expected {SHA}"):
        fetch(Download(url), tmp_path)


def test_a_hash_that_the_user_knows_counts(server, tmp_path):
    _, url = server
    path = fetch(Download(url), tmp_path, sha256=f" {SHA.upper()}")
    assert json.loads((tmp_path / weights.SEEN).read_text()) == {url: SHA}
    other = hashlib.sha256(b"another release").hexdigest()
    path.write_bytes(b"another release")
    with pytest.raises(DamagedFile):
        fetch(Download(url), tmp_path)
    fetch(Download(url), tmp_path, sha256=other)
    assert json.loads((tmp_path / weights.SEEN).read_text()) == {url: other}
    fetch(Download(url), tmp_path)
    for bad in ("123", "z" * 64):
        with pytest.raises(BadOption, match="64 digits"):
            fetch(Download(url), tmp_path, sha256=bad)


def test_an_md5_is_checked_until_a_better_hash_is_known(server, tmp_path):
    _, url = server
    md5 = hashlib.md5(DATA).hexdigest()
    with pytest.raises(DamagedFile, match=f"its MD5 is {md5}, expected 00"):
        fetch(Download(url, md5="0" * 32), tmp_path)
    assert [p.name for p in tmp_path.iterdir() if p.name != ".lock"] == []
    (tmp_path / "net.pth").write_bytes(b"put there by hand")
    with pytest.raises(DamagedFile, match="MD5"):
        fetch(Download(url, md5=md5), tmp_path)
    (tmp_path / "net.pth").unlink()
    fetch(Download(url, md5=md5), tmp_path)
    assert json.loads((tmp_path / weights.SEEN).read_text()) == {url: SHA}


def test_two_at_once_fetch_it_once(server, tmp_path):
    handler, url = server
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch(Download(url), tmp_path), range(4)))
    assert {p.read_bytes() for p in paths} == {DATA}
    assert len(handler.asked) == 1


def test_a_secure_address_must_not_lead_to_an_open_one(server, tmp_path, monkeypatch):
    _, url = server
    real = urllib.request.urlopen

    def redirected(request, timeout):
        return real(urllib.request.Request(url), timeout=timeout)

    monkeypatch.setattr(urllib.request, "urlopen", redirected)
    with pytest.raises(BadFile, match="leads to http:"):
        fetch(Download(url.replace("http:", "https:")), tmp_path)


def test_a_damaged_list_of_downloads_is_named(server, tmp_path):
    _, url = server
    for text in ("[", "[1]", "3"):
        (tmp_path / weights.SEEN).write_text(text)
        with pytest.raises(DamagedFile, match="delete it"):
            fetch(Download(url), tmp_path)


def test_too_much_is_refused(server, tmp_path):
    _, url = server
    with pytest.raises(BadFile, match="at most 1,000"):
        fetch(Download(url, SHA, most_bytes=1000), tmp_path)


def test_no_network_says_what_to_do(tmp_path):
    with pytest.raises(Unavailable, match=r"put it at .*weights\.pth .*--weights FILE"):
        fetch(Download("http://127.0.0.1:9/weights.pth"), tmp_path)


def test_local_files(tmp_path):
    with pytest.raises(BadFile, match="no such file"):
        local(tmp_path / "no.pth", None)
    (tmp_path / "a.pth").write_bytes(DATA)
    assert local(tmp_path / "a.pth", SHA.upper()) == tmp_path / "a.pth"
    with pytest.raises(DamagedFile):
        local(tmp_path / "a.pth", "0" * 64)


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("CUAL_CACHE", str(tmp_path))
    assert weights.cache_folder() == tmp_path
    monkeypatch.delenv("CUAL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert weights.cache_folder() == tmp_path / "cual"

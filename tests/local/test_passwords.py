"""The passwords of the embedded set-up: made once, and added where a release before this one made fewer."""

import json
from pathlib import Path

import pytest

from local import passwords


def test_a_home_of_an_earlier_release_keeps_its_password_and_gets_that_of_the_watch(tmp_path: Path) -> None:
    file = tmp_path / "airflow" / "passwords.json"
    passwords.prepare(file)
    assert {*json.loads(file.read_text())} == {passwords.ADMIN, passwords.WATCH}
    assert file.stat().st_mode & 0o077 == 0
    file.write_text('{"admin": "as before"}')
    passwords.prepare(file)
    made = passwords.password(file, passwords.WATCH)
    passwords.prepare(file)
    assert (passwords.password(file, passwords.ADMIN), passwords.password(file, passwords.WATCH)) == ("as before", made)


def test_a_kill_in_the_middle_leaves_the_passwords_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "passwords.json"
    file.write_text('{"admin": "as before"}')

    def killed(self: Path, *_: object, **__: object) -> None:
        self.open("w").close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        passwords.prepare(file)
    assert json.loads(file.read_text()) == {"admin": "as before"}

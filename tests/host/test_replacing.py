from __future__ import annotations

import os
from pathlib import Path

import pytest

from demitasse import FolderError
from demitasse.host import atomic, replacing
from demitasse.host.atomic import new_folder
from demitasse.host.replacing import check_replaceable

OURS = {"mark", "sub/data"}


def ours(folder: Path) -> set[str]:
    return OURS if (folder / "mark").is_file() else set()


def fill(folder: Path, text: str) -> None:
    for name in OURS:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def add_others(target: Path) -> dict[str, str]:
    """Files of somebody else, as a repository has them; what each holds."""
    written = {"README.md": "read me", ".git/HEAD": "main", ".git/objects/ab/cd": "object", "sub/notes": "a note"}
    for name, text in written.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text)
    (target / ".git").chmod(0o700)
    (target / "empty" / "er").mkdir(parents=True)
    (target / "link").symlink_to("README.md")
    (target / "linked").symlink_to(".git", target_is_directory=True)
    return written


@pytest.fixture(params=["exchange", "renames"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are replaced by an exchange, and by two renames as where there is no exchange."""
    if request.param == "renames":
        monkeypatch.setattr(atomic, "exchange", lambda one, other: False)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("links", [True, False])
def test_with_force_the_files_of_others_are_kept(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:

        def refuse(*arguments: object, **options: object) -> None:
            raise OSError("no hard links here")

        monkeypatch.setattr(os, "link", refuse)
    target = tmp_path / "m"
    with new_folder(target, ours) as aside:
        fill(aside, "old")
    others = add_others(target)
    with pytest.raises(FolderError, match=r"files that demitasse did not write \(\.git/, README.md, empty/, …\)"):
        check_replaceable(target, ours)
    with pytest.raises(FolderError, match="did not write"), new_folder(target, ours):
        raise AssertionError
    with new_folder(target, ours, force=True) as aside:
        fill(aside, "new")
    assert {name: (target / name).read_text() for name in (*OURS, *others)} == dict.fromkeys(OURS, "new") | others
    assert (target / "empty" / "er").is_dir()
    assert (target / "link").readlink() == Path("README.md")
    assert (target / "linked").is_symlink()
    assert (target / ".git").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.usefixtures("way")
def test_a_file_of_others_with_the_name_of_ours_is_kept_under_another(tmp_path: Path) -> None:
    target = tmp_path / "m"
    target.mkdir()
    (target / "mark").write_text("mine")  # of somebody else: the folder lists nothing
    for text in ("new", "newer"):
        with new_folder(target, lambda folder: {"sub/data"}, force=True) as aside:
            fill(aside, text)
    assert (target / "mark").read_text() == "newer"
    assert {path.name for path in target.glob("mark*")} == {"mark", "mark.old", "mark.old.old"}
    assert {path.read_text() for path in target.glob("mark*")} == {"newer", "new", "mine"}


@pytest.mark.usefixtures("way")
def test_what_others_write_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "m"
    with new_folder(target, ours) as aside:
        fill(aside, "old")
    with new_folder(target, ours) as aside:
        fill(aside, "new")
        (target / "late").write_text("mine")
    assert (target / "late").read_text() == "mine"
    assert (target / "mark").read_text() == "new"


def test_what_others_write_at_the_last_moment_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "m"
    with new_folder(target, ours) as aside:
        fill(aside, "old")
    real = atomic.exchange

    def late(one: Path, other: Path) -> bool:
        (target / "late").write_text("mine")
        return real(one, other)

    monkeypatch.setattr(atomic, "exchange", late)
    with new_folder(target, ours) as aside:
        fill(aside, "new")
    assert (target / "late").read_text() == "mine"
    assert (target / "mark").read_text() == "new"


@pytest.mark.parametrize("failing", ["first", "second"])
def test_a_replacement_that_fails_is_rolled_back(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an exchange: the first rename moves the old folder away, the second puts the new one there."""
    monkeypatch.setattr(atomic, "exchange", lambda one, other: False)
    target, real = tmp_path / "m", os.rename
    with new_folder(target, ours) as aside:
        fill(aside, "old")
    calls = 0

    def rename(one: Path, other: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == (1 if failing == "first" else 2):
            raise OSError(16, "Device or resource busy")
        real(one, other)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(FolderError, match="cannot write .*m .Device or resource busy"), new_folder(target, ours) as a:  # noqa: RUF043
        fill(a, "new")
    assert (target / "mark").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_the_folder_a_model_was_loaded_from_needs_force(tmp_path: Path) -> None:
    target = tmp_path / "m"
    with new_folder(target, ours) as aside:
        fill(aside, "old")
    with pytest.raises(FolderError, match="m is the folder that the model was loaded from; choose a new folder, or"):
        check_replaceable(tmp_path / "x" / ".." / "m", ours, target)
    check_replaceable(target, ours, target, force=True)
    check_replaceable(target, ours, tmp_path / "gone")


def test_files_that_systems_drop_anywhere_are_not_in_the_way(tmp_path: Path) -> None:
    target = tmp_path / "m"
    with new_folder(target, ours) as aside:
        fill(aside, "old")
    (target / ".DS_Store").write_text("")
    with new_folder(target, ours) as aside:
        fill(aside, "new")
    assert (target / ".DS_Store").exists()


@pytest.mark.parametrize("out", [".", "..", "../..", "../../repo/deep", "link"])
@pytest.mark.parametrize("force", [True, False])
def test_the_working_directory_is_not_replaced(
    out: str, force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repo" / "deep").mkdir(parents=True)
    (tmp_path / "repo" / "deep" / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "repo" / "deep")
    with pytest.raises(FolderError, match=r"is the working directory or holds it.*; name a folder below it, such as"):
        check_replaceable(Path(out), ours, force=force)
    assert (tmp_path / "repo" / "deep").is_dir()


@pytest.mark.parametrize("mounted", ["m", "m/data"])
@pytest.mark.parametrize("force", [True, False])
def test_a_mount_point_is_not_replaced(
    mounted: str, force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a folder with one inside, since removing the old folder would empty what is mounted there."""
    (tmp_path / "m" / "data").mkdir(parents=True)
    table = tmp_path / "mountinfo"  # a line of Linux's table, where a space in a path is \040
    path = os.fspath(tmp_path / mounted).replace(" ", "\\040")
    table.write_text(f"36 35 98:0 /mnt1 {path} rw,noatime master:1 - ext3 /dev/root rw\n")
    monkeypatch.setattr(replacing, "_MOUNTS", table)
    with pytest.raises(FolderError, match=r"is a mount point, so .*m cannot be replaced; name a folder below it"):
        check_replaceable(tmp_path / "m", ours, force=force)


@pytest.mark.posix
def test_the_root_of_the_disk_is_a_mount_point() -> None:
    with pytest.raises(FolderError, match=r"mount point|working directory"):
        check_replaceable(Path("/"), ours)

"""The folder of a role: its files under fixed names, and where the other roles are.

    role.json      which role, where it listens, where the others do
    study.json     the terms
    keys           secret keys; keys.pub, to be published
    password       what callers of its service must present
    ROLE.password  copy of the password of another role
    store.db       its state

A *pilot* has such a folder for each role, so that all of them run on one machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec

from fpmonitor.errors import InputError
from fpmonitor.private.files import decode, encode
from fpmonitor.private.keys import (
    PublicKeys,
    SecretKeys,
    public_path,
    read_public,
    read_secret_keys,
    write_secret_keys,
)
from fpmonitor.private.recipient import Recipient
from fpmonitor.private.shuffler import Shuffler
from fpmonitor.private.study import (
    FIRST_PORT,
    MAX_FILE_BYTES,
    ROLES,
    CollectionRequest,
    Role,
    Study,
    first_ask,
)
from fpmonitor.private.transport import RoleClient, make_password, read_password
from fpmonitor.safe_files import read_bytes, write_bytes


class RoleConfig(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="fpmonitor-role-1"
):
    """What a role is, and where it is found."""

    role: Role  # Whose folder it is.
    # host, port: Where its service listens.
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]
    services: Mapping[Role, str]  # Addresses of the other roles.
    origins: tuple[str, ...] = ()  # Origins of pages that may send uploads; `*` for any.
    pool_mb: int = 10_000  # Largest size of the shuffler's store, MB.


@dataclass(frozen=True)
class RoleFolder:
    """An existing folder of a role; members raise `InputError` where a file is missing or wrong."""

    path: Path

    @classmethod
    def of(cls, path: Path, role: Role) -> RoleFolder:
        """Return the folder of a role, itself or in a pilot.

        Raises:
            InputError: There is none.
        """
        for one in (path / role, path):
            if (one / "role.json").is_file():
                found = cls(one)
                if found.config.role == role:
                    return found
        raise InputError(
            f"{path}: not a folder of the {role}", hint="`fpmonitor private init` makes one"
        )

    @cached_property
    def config(self) -> RoleConfig:
        """Role and addresses."""
        path = self.path / "role.json"
        if not path.is_file():
            raise InputError(
                f"{self.path}: not the folder of a role",
                hint="`fpmonitor private init` makes one; those of a pilot are in it",
            )
        return decode(read_bytes(path, "role", most=MAX_FILE_BYTES), RoleConfig, str(path))

    @property
    def study(self) -> Study:
        """The terms."""
        path = self.path / "study.json"
        if not path.exists():
            raise InputError(
                f"{path}: not there", hint="all roles have a copy of the file that `init` wrote"
            )
        return Study.read(path)

    @property
    def store(self) -> Path:
        """Path of the store."""
        return self.path / "store.db"

    @property
    def keys(self) -> Path:
        """Path of the secret keys."""
        return self.path / "keys"

    @property
    def ring(self) -> SecretKeys:
        """The secret keys."""
        role = self.config.role
        ring = read_secret_keys(self.keys)
        if ring.role != role:
            raise InputError(f"{self.keys}: keys of the {ring.role}, not of the {role}")
        return ring

    @property
    def public(self) -> PublicKeys:
        """The published keys."""
        return read_public(public_path(self.keys), self.config.role)

    def open_shuffler(self) -> Shuffler:
        """Open the store of the shuffler."""
        most = self.config.pool_mb * 1_000_000
        return Shuffler(self.store, self.study, self.ring, most_bytes=most)

    def open_recipient(self) -> Recipient:
        """Open the store of the curator or the analyst."""
        return Recipient(self.store, self.study, self.ring)

    def password(self, role: Role) -> str:
        """Return the password that a role wants."""
        path = self.path / ("password" if role == self.config.role else f"{role}.password")
        if not path.exists():
            raise InputError(
                f"{path}: not there", hint=f"it is a copy of `password` in the {role}'s folder"
            )
        return read_password(path)

    def address(self, role: Role) -> str:
        """Return the address of a role.

        Raises:
            InputError: It is not in the configuration.
        """
        if role == self.config.role:
            return f"http://{self.config.host}:{self.config.port}"
        if role not in self.config.services:
            raise InputError(f"{self.path / 'role.json'}: services lacks the {role}")
        return self.config.services[role]

    def service(self, role: Role) -> RoleClient:
        """Return the service of a role, with its password."""
        return RoleClient(self.address(role), self.password(role))


def make_role(path: Path, role: Role, *, port: int = FIRST_PORT) -> RoleFolder:
    """Make the folder of a role with new keys and a new password; all on this machine at first.

    `port` is that of the shuffler; the curator has the next one, the analyst the one after it.
    """
    _make_folder(path)
    ports = {one: port + place for place, one in enumerate(ROLES)}
    others = {one: f"http://127.0.0.1:{ports[one]}" for one in ROLES if one != role}
    config = RoleConfig(role=role, port=ports[role], services=others)
    ring = SecretKeys.generate(role)
    write_bytes(path / "role.json", [encode(config)])
    write_secret_keys(path / "keys", ring)
    make_password(path / "password")
    return RoleFolder(path)


def make_study(path: Path, study: Study) -> CollectionRequest:
    """Write a study and its first request into a folder, and return this."""
    _check_no_study(path)
    _make_folder(path, exist_ok=True)
    first = first_ask(study)
    write_bytes(path / "study.json", [study.to_bytes()])
    write_bytes(path / "round-1.json", [first.to_bytes()])
    return first


def _check_no_study(path: Path) -> None:
    for name, words in (("study.json", "a study"), ("round-1.json", "the request of a study")):
        if (path / name).exists():
            raise InputError(f"{path}: has {words}", hint="answers to it would be lost")


def _make_folder(path: Path, *, exist_ok: bool = False) -> None:
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except OSError as error:
        raise InputError(f"{path}: cannot be made ({error.strerror})") from error


def make_pilot(path: Path, terms: Study, *, port: int = FIRST_PORT) -> Study:
    """Make the folders of all roles, the study, and its first request, which is published.

    `terms` is the study without the key of the curator; `port` as for `make_role`.

    Raises:
        InputError: The folder has a study, a first request or a role, or cannot be made.
    """
    _check_no_study(path)
    for role in ROLES:  # before any is made, so that the command can be given again
        if (path / role).exists():
            raise InputError(f"{path / role}: already exists", hint="name a new folder")
    folders = {role: make_role(path / role, role, port=port) for role in ROLES}
    study = msgspec.structs.replace(terms, curator_key=folders["curator"].public.verifying)
    first = make_study(path, study)
    for folder in folders.values():
        write_bytes(folder.path / "study.json", [study.to_bytes()])
        for other in set(ROLES) - {folder.config.role}:
            make_password(folder.path / f"{other}.password", folders[other].password(other))
    curator, shuffler = folders["curator"].open_recipient(), folders["shuffler"].open_shuffler()
    for one in (curator, shuffler):
        with one.store:
            one.add_ask(first)
    return study

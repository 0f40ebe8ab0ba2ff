"""The lines of HTML by which a page answers a collection request, with the sealing script."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from fpmonitor.private.study import CollectionRequest, Study, check_ask
from fpmonitor.private.wire import decode_configs
from fpmonitor.serve.snippet import OWN_FILE, SEALED, for_script, script_element, script_named


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedAnswers:
    """What a page needs to answer a collection request.

    Raises:
        InputError: The request violates the terms of the study, or a list has no key for our
            algorithms.
    """

    to: str  # URL of the shuffler.
    # study, ask: The files, byte by byte.
    study: bytes
    ask: bytes
    # shuffler_keys, recipient_keys: `HpkeConfigList` of each.
    shuffler_keys: bytes
    recipient_keys: bytes

    def __post_init__(self) -> None:
        check_ask(Study.from_bytes(self.study), CollectionRequest.from_bytes(self.ask))
        for keys in (self.shuffler_keys, self.recipient_keys):
            decode_configs(keys)

    @property
    def apis(self) -> tuple[str, ...]:
        """APIs that the page reads, sorted."""
        sets = CollectionRequest.from_bytes(self.ask).sets
        return tuple(sorted({api for one in sets for api in one}))


def sealing_lines(address: str, answers: SealedAnswers) -> str:
    """Return HTML that loads the sealing script from a service and answers after consent.

    `address` is that of the service with the script, `https://host[:port]`.
    """
    shuffler_keys, recipient_keys = (
        for_script(base64.b64encode(keys).decode())
        for keys in (answers.shuffler_keys, answers.recipient_keys)
    )
    return f"""{script_element(address, script_named(SEALED))}
<script>
{OWN_FILE}fpmonitor.seal({{
  to: {for_script(answers.to.rstrip("/"))},
  study: {for_script(answers.study.decode())},
  ask: {for_script(answers.ask.decode())},
  shufflerKeys: {shuffler_keys},
  recipientKeys: {recipient_keys},
  consent: () => false, // replace: true, or a promise of true, once the visitor has agreed
}});
</script>
"""

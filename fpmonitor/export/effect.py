"""What a list buys: the candidates that stay readable under some controls."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from fpmonitor.export.controls import BELIEVED, HIDING, effect_of
from fpmonitor.vocabulary import base_api, same_information

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from fpmonitor.export.controls import Control, Product
    from fpmonitor.export.evidence import Way

    Teller = str | Way  # an API by its name, or a way that was found in the product


def left_readable(
    apis: Iterable[str],
    controls: Iterable[Control],
    product: Product = BELIEVED,
    means: Callable[[str], str] = str,
) -> tuple[str, ...]:
    """Return the APIs that still distinguish users under the controls, sorted.

    `means` says what products call them. One that is hidden still counts if what it tells stays
    readable in another way, which is not itself among them.

    An API that is removed or constant has one value for all users, and so has one that is
    randomised, read as one shared token: omitting it leaves the same groups of users. A coarsened
    API counts as it was, and so does one of which another way may tell only a part: merging values
    can only lower the exposure, so that this errs to the safe side. `left_unchanged` errs to the
    other.
    """
    controls, apis = tuple(controls), set(apis)
    tellers_by_api = tellers(apis, means, product)
    return tuple(
        sorted(
            api
            for api in apis
            if readable([means(api)], controls, product)
            or still_told(tellers_by_api[api], controls, product)
        )
    )


def left_unchanged(
    apis: Iterable[str],
    controls: Collection[Control],
    product: Product = BELIEVED,
    means: Callable[[str], str] = str,
) -> tuple[str, ...]:
    """Return the APIs that tell as much under the controls as without them, sorted.

    All that stays readable tells at least what these tell, and at most what `left_readable` does.
    """
    return tuple(
        sorted(
            api
            for api in apis
            if effect_of(means(api), controls, product) not in {*HIDING, "untried"}
            and not any(control.effect_on(means(api)) == "coarsened" for control in controls)
        )
    )


def elsewhere(apis: Collection[str], means: Callable[[str], str] = str) -> dict[str, list[str]]:
    """Return for each of some APIs the other ones that tell what it tells, sorted.

    As the vocabulary knows them, whatever the product.
    """
    meant = {api: means(api) for api in apis}
    looked_at = {*meant.values()}
    return {
        api: [n for n in same_information(meaning) if not looked_at & {n, base_api(n)}]
        for api, meaning in meant.items()
    }


def tellers(
    apis: Collection[str], means: Callable[[str], str], product: Product
) -> dict[str, list[Teller]]:
    """Return for each of some APIs what else tells what it tells, but for those of them.

    A name of the vocabulary counts where the product was not asked; where it was, what counts is
    each way that told the same secret.
    """
    if product.evidence is None:
        return {api: list(names) for api, names in elsewhere(apis, means).items()}
    evidence, meant = product.evidence, {api: means(api) for api in apis}
    told_by = {api: {meaning, *same_information(meaning)} for api, meaning in meant.items()}
    owners = Counter(chain.from_iterable(told_by.values()))

    def looked_at(api: str) -> set[str]:
        """Return names of candidates, and those that tell the same as another one than this."""
        own = {name for name in told_by[api] if owners[name] == 1}
        return (owners.keys() - own) | {meant[api]}

    found: dict[str, list[Teller]] = {
        api: [
            *(name for name in names if not evidence.was_asked(meant[api], name)),
            *evidence.others(meant[api], looked_at(api)),
        ]
        for api, names in elsewhere(apis, means).items()
    }
    if product.by_layout:
        return found
    return {
        api: [
            one
            for one in api_tellers
            if not evidence.is_laid_out(one if isinstance(one, str) else one[2])
        ]
        for api, api_tellers in found.items()
    }


def still_told(
    api_tellers: Iterable[Teller], controls: Iterable[Control], product: Product
) -> list[Teller]:
    """Those of what tells an API that the controls leave."""
    controls, api_tellers = tuple(controls), list(api_tellers)
    names = [one for one in api_tellers if isinstance(one, str)]
    left: list[Teller] = [*readable(names, controls, product)]
    if product.evidence is None:
        return left
    closed = product.evidence.closed(control.name for control in controls)
    return [*left, *(one for one in api_tellers if not isinstance(one, str) and one not in closed)]


def readable(
    names: Iterable[str], controls: Iterable[Control], product: Product = BELIEVED
) -> list[str]:
    """Those of some APIs, as products call them, that no control hides."""
    controls = tuple(controls)
    return [name for name in names if effect_of(name, controls, product) not in HIDING]

"""Commands on releases: release, and audit of what a release reveals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fpmonitor.cli import singling_out
from fpmonitor.cli.apart import union
from fpmonitor.cli.certificate import certificate
from fpmonitor.cli.context import open_database
from fpmonitor.cli.options import FORMAT, QUIET, share
from fpmonitor.cli.output import Shown, note, show
from fpmonitor.cli.readers import ReaderOptions, queries
from fpmonitor.cli.singling_out import USERS
from fpmonitor.cli.users import WHAT_IF, StoredUsers, declared_transforms
from fpmonitor.errors import PolicyError
from fpmonitor.policy import upward
from fpmonitor.population.levels import read_levels
from fpmonitor.release.generalisation import Protection
from fpmonitor.release.histogram import (
    Mechanism,
    Release,
    ReleaseTerms,
    check_table_name,
    read_release,
    write_release,
)
from fpmonitor.release.partial_knowledge import delta_curve, pitfalls, smallest_k, value_guarantee
from fpmonitor.release.sensitive import sensitivity_of
from fpmonitor.release.stored import (
    Histogram,
    read_histogram,
    release_users,
    several_histograms,
)
from fpmonitor.render import store
from fpmonitor.safe_files import untyped
from fpmonitor.vocabulary import split_names

_LARGEST_CURVE = 10_000


RELEASE_USERS = Annotated[
    int | None,
    typer.Option(
        "--users", "-n", help="Number of users in the release.", show_default="the observed users"
    ),
]
ALPHA = Annotated[
    float,
    typer.Option("--alpha", help="Probability with which the estimated distribution may be wrong."),
]
EPSILON = Annotated[float, typer.Option("--epsilon", help="Privacy loss, in nats.")]
KNOWN = Annotated[
    int, typer.Option("--known", help="Number of users whose records an attacker knows.")
]
THRESHOLD = Annotated[int, typer.Option("--k", "-k", help="Counts below K are not published.")]
PROBABILITY = Annotated[
    float, typer.Option("--probability", "-p", help="Probability that another user has the value.")
]


@dataclass(frozen=True, kw_only=True)
class HistogramOptions(StoredUsers):
    """Options for a histogram of the users of a database, and for what an attacker knows."""

    epsilon: EPSILON
    users: RELEASE_USERS = None
    known: KNOWN = 0
    alpha: ALPHA = 0.05
    what_if: WHAT_IF = None

    def read(self, apis: str) -> Histogram:
        """Count the users by the values of some APIs."""
        with open_database(self.db) as database:
            return read_histogram(
                database,
                split_names(apis),
                epsilon=self.epsilon,
                window=self.window,
                transforms=declared_transforms(self.what_if),
                users=self.users,
                known=self.known,
                alpha=self.alpha,
            )


audit = typer.Typer()


OUTPUT = Annotated[
    Path, typer.Option("-o", "--output", help="Parquet or CSV file to write, by its ending.")
]
MECHANISM = Annotated[
    Mechanism,
    typer.Option(
        "--mechanism",
        help="Withhold rare rows as a whole, suppress single cells, or show values coarser.",
    ),
]
BUDGET = Annotated[
    float,
    typer.Option(
        "--budget",
        help="Largest share of users that `cells` may withhold: 0.05 or 5%.",
        parser=share,
        metavar="SHARE",
    ),
]
SAMPLE = Annotated[
    float | None,
    typer.Option(
        "--sample",
        help="Draw this share of the users first, in secret: differential privacy whatever an "
        "attacker knows.",
        parser=share,
        metavar="SHARE",
    ),
]
RELEASE_EPSILON = Annotated[
    float, typer.Option("--epsilon", help="With --sample: privacy loss, in nats.")
]
SENSITIVE = Annotated[
    str | None,
    typer.Option(
        "--sensitive",
        help="One of the APIs: say in the manifest how much the table reveals about it.",
        metavar="API",
    ),
]
DIVERSITY = Annotated[
    int,
    typer.Option(
        "--diversity",
        help="With --sensitive and `generalisation`: users who look alike in the other APIs have "
        "at least this many of its values (l-diversity).",
        min=1,
    ),
]
CLOSENESS = Annotated[
    float,
    typer.Option(
        "--closeness",
        help="With --sensitive and `generalisation`: largest distance of its values, among users "
        "who look alike, from those of all (t-closeness).",
        parser=share,
        metavar="SHARE",
        show_default="any",
    ),
]
LEVELS = Annotated[
    Path | None,
    typer.Option(
        "--levels",
        help="With `generalisation`: show these levels (docs/levels.md) of some of the APIs.",
        metavar="LEVELS.toml",
    ),
]


def release(
    *,
    apis: Annotated[str, typer.Option(help="APIs of the table, separated by commas.")],
    k: THRESHOLD,
    output: OUTPUT,
    mechanism: MECHANISM = "histogram",
    budget: BUDGET = 0.05,
    sample: SAMPLE = None,
    epsilon: RELEASE_EPSILON = 1.0,
    sensitive: SENSITIVE = None,
    diversity: DIVERSITY = 1,
    closeness: CLOSENESS = 1.0,
    levels: LEVELS = None,
    what_if: WHAT_IF = None,
    reader: ReaderOptions,
    users: StoredUsers,
    output_format: FORMAT = None,
    quiet: QUIET = False,
) -> None:
    """Write a k-anonymous table and its manifest, and print the manifest."""
    check_table_name(output)
    terms = ReleaseTerms(
        k=k,
        transforms=declared_transforms(what_if),
        mechanism=mechanism,
        budget=budget,
        sensitive=None if sensitive is None else Protection(sensitive, diversity, closeness),
        levels=() if levels is None else read_levels(levels),
    )
    if sensitive is None and (diversity > 1 or closeness < 1):
        raise PolicyError("sensitive", "is missing", hint="--sensitive API names the attribute")
    with users.open() as monitor:
        made = release_users(
            monitor.database,
            split_names(apis),
            terms,
            window=monitor.window,
            sample=sample,
            epsilon=epsilon,
        )
        rows = [f"row {row} of {manifest_name(made)}" for row in range(len(made.table))]
        reader.ask(monitor, rows)
    # After the reader was counted: what is refused is on no disk.
    where = write_release(made, output)
    manifest = untyped(made.manifest)
    if made.manifest.sampling is not None:
        del manifest["sampling"]["seed"]  # tells who was drawn: it stands in the file alone
    counts = {
        f"{part} {name}": value
        for part in ("published", "suppressed", "sampling", "sensitive")
        for name, value in (manifest[part] or {}).items()
    }
    show(store.members(manifest, counts), output_format, None)
    note(f"{output} may be published; keep {where} to yourself", quiet=quiet)
    _note_protection(made, quiet=quiet)


def _note_protection(made: Release, *, quiet: bool) -> None:
    """Note on stderr what a release proves, and what it does not."""
    sampling = made.manifest.sampling
    if sampling is not None:
        note(
            f"the table is ({upward(sampling.epsilon, 6)}, "
            f"{upward(sampling.delta, 2)})-differentially private for one user more or less; "
            "publish no other table of these users beside it",
            quiet=quiet,
        )
        if sampling.delta * made.manifest.published.users >= 1:
            note(
                "so large a delta proves next to nothing: a table of one whole record keeps it, "
                "too; raise --k or --epsilon, or lower --sample",
                quiet=quiet,
            )
    if made.manifest.mechanism == "generalisation":
        note(
            f"{100 * (made.manifest.information_loss or 0):.3g} % of the information is "
            "lost; nothing is proved about the rest (see `fpmonitor audit singling-out`)",
            quiet=quiet,
        )
    elif made.manifest.suppressed.users == 0 and sampling is None:
        note(
            "nobody lacks a value and nothing was suppressed: with a known number of users the "
            "threshold protects nobody (see `fpmonitor audit partial-knowledge`)",
            quiet=quiet,
        )


def manifest_name(made: Release) -> str:
    """Name a release by what it is made of."""
    manifest = made.manifest
    return f"release of {sorted(manifest.policy.apis)}, k {manifest.policy.k}, {manifest.mechanism}"


audit.command("queries")(queries)
audit.command("certificate")(certificate)
audit.command("union")(union)
audit.command("baseline")(singling_out.baseline)
audit.command("examples")(singling_out.examples)
audit.command("pseudonymous")(singling_out.pseudonymous)
audit.command("singling-out")(singling_out.attack)


@audit.command("histogram")
def histogram(
    *,
    apis: Annotated[str, typer.Option(help="Columns of the histogram, separated by commas.")],
    k: THRESHOLD,
    histogram_options: HistogramOptions,
    shown: Shown,
) -> None:
    """Compute the delta of a histogram of the users of a database, estimated and certified."""
    found = histogram_options.read(apis).guarantee(k)
    answer = {
        "users": found.users,
        "values": found.values,
        "epsilon": found.epsilon,
        "delta_estimated": found.estimated.delta,
        "delta_certified": found.certified.delta,
        "confidence": found.confidence,
        "common_from": found.certified.common_from,
        "rare_up_to": found.certified.rare_up_to,
    }
    shown.show(store.members(answer))


@audit.command("several")
def several(
    *,
    apis: Annotated[
        list[str],
        typer.Option(help="Columns of a histogram, separated by commas; repeat for the others."),
    ],
    k: THRESHOLD,
    epsilon: EPSILON,
    known: KNOWN = 0,
    users: StoredUsers,
    shown: Shown,
) -> None:
    """Estimate the delta of several histograms of the same users, published together."""
    with open_database(users.db) as database:
        found = several_histograms(
            database,
            [split_names(names) for names in apis],
            k=k,
            epsilon=epsilon,
            window=users.window,
            known=known,
        )
    shown.show(store.members(untyped(found)))


@audit.command("sensitive")
def sensitive(
    *,
    release_file: Annotated[
        Path, typer.Option("--release", help="Table written by `fpmonitor release`.")
    ],
    api: Annotated[str, typer.Option(help="Sensitive attribute, a column of the table.")],
    shown: Shown,
) -> int:
    """Measure what a release tells of a sensitive attribute: l-diversity, t-closeness, beta.

    Exit code 1: all users of some class have one value. 3: all users of the table have it.
    """
    found = sensitivity_of(read_release(release_file).table, api)
    shown.show(store.members(asdict(found)))
    if found.l == 1 and not found.gives_away:
        note(f"{api}: all users have one value, so that nothing is told of it, nor tested")
        return singling_out.EXIT_UNTESTED
    return singling_out.EXIT_FAILED if found.gives_away else 0


@audit.command("partial-knowledge")
def partial_knowledge(
    *,
    users: USERS,
    probability: PROBABILITY,
    k: THRESHOLD,
    epsilon: EPSILON,
    known: KNOWN = 0,
    copies: Annotated[
        int | None,
        typer.Option(help="Number of known records with the value.", show_default="the average"),
    ] = None,
    shown: Shown,
    quiet: QUIET = False,
) -> None:
    """Compute the deltas of a histogram for a user with one value, from probabilities alone."""
    answer = asdict(
        value_guarantee(users, probability, k=k, epsilon=epsilon, known=known, copies=copies)
    )
    shown.show(store.members(answer))
    for pitfall in pitfalls(users, probability, k=k, epsilon=epsilon):
        note(pitfall, quiet=quiet)


@audit.command("curve")
def epsilon_curve(
    *,
    users: USERS,
    probability: PROBABILITY,
    k: THRESHOLD,
    known: KNOWN = 0,
    most: Annotated[float, typer.Option(help="Largest epsilon, in nats.")] = 3.0,
    points: Annotated[
        int, typer.Option(help="Number of evenly spaced epsilons.", min=2, max=_LARGEST_CURVE)
    ] = 31,
    shown: Shown,
) -> None:
    """Compute the delta of `partial-knowledge` for a range of epsilons."""
    epsilons = [float(epsilon) for epsilon in np.linspace(0, most, points)]
    deltas = delta_curve(users, probability, k=k, epsilons=epsilons, known=known)
    rows = [
        {"epsilon": epsilon, "delta": float(delta)}
        for epsilon, delta in zip(epsilons, deltas, strict=True)
    ]
    shown.show(store.points_output(rows))


@audit.command("smallest-k")
def smallest_threshold(
    *,
    delta: Annotated[float, typer.Option(help="Delta to reach.")],
    apis: Annotated[
        str | None,
        typer.Option(help="Columns of the histogram of a database, separated by commas."),
    ] = None,
    probability: Annotated[
        list[float] | None,
        typer.Option(
            "--probability",
            "-p",
            help="Instead of a database: probability of a value; repeat for each further value.",
        ),
    ] = None,
    histogram_options: HistogramOptions,
    shown: Shown,
) -> None:
    """Find the smallest threshold that makes a histogram (epsilon, delta)-private, if any."""
    if (apis is None) == (not probability):
        raise PolicyError("apis", "name either APIs of a database, or probabilities (-p)")
    if probability:
        if histogram_options.users is None:
            raise PolicyError("users", "is missing", hint="-p says nothing of how many there are")
        k = smallest_k(
            histogram_options.users,
            probability,
            epsilon=histogram_options.epsilon,
            delta=delta,
            known=histogram_options.known,
        )
        shown.show(store.members({"k": k}))
        return
    shown.show(store.members(histogram_options.read(apis or "").smallest_thresholds(delta)))

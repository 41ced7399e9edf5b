"""Does the ranking hold? The two best schedulers again, with each device constant at the ends of its range.

A constant that changes nothing in the scenario's tables is not played. Every end plays the same episodes, so each
difference between the two is paired. A constant *flips* the ranking if at one of its ends the other one is ahead.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from eval.evidence.context import Context
from eval.evidence.selection import plays_alike
from eval.play import Outcome
from eval.progress import progress_bar
from eval.summary import CLAIRVOYANT, is_learned, paired
from eval.theme import WIDTH_IN, Drawing, figure, light
from hexenv.device import Device, load_device
from hexenv.engine.layout import TableArrays, Tables
from hexenv.workload import build

EPISODES = 12
"""At most so many."""
SHOWN = 20
"""Constants in the figure, those with the largest swing."""
ENDS = ("low", "high")


def two_best(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, Outcome] | None:
    """The two with the highest mean return that do not play alike and know no future; None if there are no two."""
    fair = [outcome for outcome in outcomes if outcome.scheduler != CLAIRVOYANT]
    ranked = sorted(fair, key=lambda o: -float(o.episodes["return"].mean()))
    others = (one for one in ranked[1:] if not plays_alike(one, ranked[0]))
    return next(((ranked[0], other) for other in others), None)


def sensitivity_frame(context: Context) -> pd.DataFrame:
    """A row a constant with a range, the largest swing first; a first row ``(as given)`` without one.

    ``lead`` is how far the best is ahead of the second, ms of reference work an episode, with its 95 % interval, at
    each end; ``best_low`` ... are the returns. ``flips``: "no", "yes" (the second is ahead at an end) or "clearly" (and
    the whole interval says so).
    """
    pair = two_best(context.outcomes)
    if pair is None:
        return pd.DataFrame()
    names = [outcome.scheduler for outcome in pair]
    device = load_device(context.plan.device)
    changes = [(key, end) for key, constant in device.constants.items() if constant.low < constant.high for end in ENDS]
    tables = _compile_all(context, names, changes)
    moved = [place for place, found in enumerate(tables) if found is not None]
    games = [(name, context.tables(name)) for name in names]
    games += [(name, own) for place in moved for name, own in zip(names, tables[place] or (), strict=True)]
    played = iter(context.play(games, EPISODES))
    base = (next(played), next(played))
    results = {changes[place]: (next(played), next(played)) for place in moved}
    rows = [_row(key, device, *(results.get((key, end), base) for end in ENDS)) for key, _ in changes[::2]]
    frame = pd.DataFrame([_row("(as given)", device, base, base), *rows])
    lead = float(frame["lead_low"].iloc[0])
    frame["swing"] = np.maximum((frame["lead_low"] - lead).abs(), (frame["lead_high"] - lead).abs())
    frame["flips"] = [_flips(row, lead) for row in frame.to_dict("records")]
    frame.insert(0, "episodes", len(base[0].episodes))
    frame.insert(0, "best", names[0])
    frame.insert(1, "second", names[1])
    order = np.lexsort((np.arange(len(frame)), -frame["swing"].to_numpy(), frame["constant"] != "(as given)"))
    return frame.iloc[order].reset_index(drop=True)


def sensitivity_text(frame: pd.DataFrame) -> str:
    """What the frame says about the headline, every constant that flips it named."""
    base, rows = frame.iloc[0], frame.iloc[1:]
    interval = f"[{base['lead_from_low']:+.1f}, {base['lead_to_low']:+.1f}]"
    clearly, barely = (", ".join(rows.loc[rows["flips"] == kind, "constant"]) for kind in ("clearly", "yes"))
    found = [f"It flips for sure inside the range of {clearly}." if clearly else ""]
    found += [f"It flips, but within the intervals, inside the range of {barely}." if barely else ""]
    found = [text for text in found if text] or ["No constant flips it inside its range."]
    clear = base["lead_from_low"] > 0.0 or base["lead_to_low"] < 0.0
    doubt = "" if clear else ", which is not clear to begin with"
    return (
        f"Does the ranking hold? As given, {base['best']} is ahead of {base['second']} by {base['lead_low']:+.1f} ms "
        f"{interval} on {base['episodes']} episodes{doubt}; one device constant at a time was taken to both ends of "
        f"its range ({(rows['swing'] > 0.0).sum()} of {len(rows)} change anything). {' '.join(found)}"
    )


def draw_sensitivity(frame: pd.DataFrame) -> Drawing:
    """A tornado: the lead of the best over the second with each constant at its low and high end."""
    base = frame.iloc[0]
    rows = frame.iloc[1:]
    rows = rows[rows["swing"] > 0.0].head(SHOWN)
    drawing = figure(WIDTH_IN, 1.15 + 0.25 * max(len(rows), 1))
    axes = drawing.subplots()
    for place, row in enumerate(rows.to_dict("records")):
        for shift, end, colour in ((-0.19, "low", "hvx"), (0.19, "high", "hmx")):
            value, low, high = (row[f"{name}_{end}"] for name in ("lead", "lead_from", "lead_to"))
            (bar,) = axes.barh(
                place + shift, value - base["lead_low"], left=base["lead_low"], height=0.36, color=light(colour)
            )
            axes.plot([low, high], [place + shift] * 2, color=light("muted"), linewidth=0.6)
            note = f"{row['constant']} = {row[end]:.4g} ({end}): lead {value:+.1f} [{low:+.1f}, {high:+.1f}]"
            drawing.note(bar, f"{end}-{row['constant']}", note)
    axes.axvline(base["lead_low"], color=light("ink"), linewidth=0.9)
    axes.axvline(0.0, color=light("miss"), linewidth=0.9, linestyle="--")
    labels = [f"{row['constant']}{' *' if row['flips'] != 'no' else ''}" for row in rows.to_dict("records")]
    axes.set_yticks(range(len(rows)), labels, fontsize=7.5)
    axes.tick_params(axis="y", labelcolor=light("ink"), length=0)
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    axes.set_xlabel(f"lead of {base['best']} over {base['second']}, ms")
    axes.grid(True, axis="x", linewidth=0.6)
    for end, colour in (("low", "hvx"), ("high", "hmx")):
        axes.barh([0], [0], color=light(colour), label=f"constant at its {end} end")
    drawing.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8)
    return drawing


_Game = tuple[str, str, str, tuple[dict[str, Any], ...]]
"""Scenario, device, split, and the engine settings of each scheduler."""


def _compile_all(context: Context, names: list[str], changes: list[tuple[str, str]]) -> list[tuple[Tables, ...] | None]:
    """For each change what the schedulers run on; None where nothing that they meet differs."""
    plan = context.plan
    settings = tuple({**context.scheduler(name).overrides, **plan.settings} for name in names)
    game = (context.scenario, plan.device, plan.split, settings)
    fields = (*TableArrays._fields, *(["constants"] if any(map(is_learned, names)) else []))  # a policy observes those
    jobs = (delayed(_compiled)(game, fields, key, end) for key, end in changes)
    found: list[tuple[Tables, ...] | None] = []
    with progress_bar(len(changes)) as bar:
        bar.begin(f"{context.outcomes[0].tables.scenario}, device constants", 0)
        for tables in Parallel(context.workers, return_as="generator")(jobs):
            found.append(tables)
            bar.update(len(found))
    return found


def _compiled(game: _Game, fields: Sequence[str], key: str, end: str) -> tuple[Tables, ...] | None:
    scenario, name, split, settings = game
    device = load_device(name)
    changed = device.with_values(**{key: getattr(device.constants[key], end)})
    found = build(scenario, changed, split, **settings[0])
    base = build(scenario, device, split, **settings[0])
    if all(np.array_equal(getattr(found, field), getattr(base, field)) for field in fields):
        return None
    return found, *(build(scenario, changed, split, **own) for own in settings[1:])


def _row(constant: str, device: Device, *ends: tuple[Outcome, Outcome]) -> dict[str, object]:
    found = device.constants.get(constant)
    row: dict[str, object] = {"constant": constant, "confidence": found.confidence if found else ""}
    for end, (best, second) in zip(ENDS, ends, strict=True):
        lead = paired(best, second, "return")
        row |= {end: getattr(found, end) if found else float("nan")}
        row |= {f"best_{end}": float(best.episodes["return"].mean())}
        row |= {f"second_{end}": float(second.episodes["return"].mean())}
        row |= {f"lead_{end}": lead.value, f"lead_from_{end}": lead.low, f"lead_to_{end}": lead.high}
    return row


def _flips(row: dict[Hashable, Any], lead: float) -> str:
    """Whether the one that is ahead as given falls behind at an end."""
    sign = 1.0 if lead >= 0.0 else -1.0
    if all(sign * row[f"lead_{end}"] >= 0.0 for end in ENDS):
        return "no"
    clearly = any(max(sign * row[f"lead_from_{end}"], sign * row[f"lead_to_{end}"]) < 0.0 for end in ENDS)
    return "clearly" if clearly else "yes"

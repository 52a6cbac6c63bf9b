"""The list of plots, and the mark by which a function becomes one."""

from collections.abc import Callable

from moa_core.train.bundle.world.facts import Plot
from moa_core.train.bundle.world.world import World

PLOTS: dict[str, Plot] = {}
SMALL = "toy clothes treasure book music"


def plot(
    modes: str = "human fable I",
    things: str = "",
    place: str = "",
    ages: str = "child",
    weather: str = "",
    time: str = "",
    animals: str = "land bird",
    adjectives: str = "",
) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    """Enter a function as a plot, with what it asks of its world."""

    def enter(run: Callable[[World], None]) -> Callable[[World], None]:
        name = run.__name__
        PLOTS[name] = Plot(
            name, run, frozenset(modes.split()), tuple(things.split()), tuple(place.split()), ages,
            tuple(weather.split()), tuple(time.split()), frozenset(animals.split()),
            frozenset(adjectives.split()),
        )  # fmt: skip
        return run

    return enter

"""A layout places every node once and lets edges run from left to right wherever a cycle does not forbid it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinraven.console.drawing.layers import arrange

NODES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(st.tuples(NODES, NODES), st.floats(1, 100), max_size=20)


@given(edges=GRAPHS)
def test_every_node_has_one_place(edges: dict[tuple[str, str], float]) -> None:
    """All nodes of the edges, and no others, stand in exactly one column."""
    placed = [slot[0] for column in arrange(edges).columns for slot in column if len(slot) == 1]
    assert sorted(placed) == sorted({name for edge in edges for name in edge})


@given(edges=GRAPHS)
def test_routes_move_one_column_at_a_time(edges: dict[tuple[str, str], float]) -> None:
    """A forward edge passes each column between its ends once, in a slot of its own."""
    layout = arrange(edges)
    column_of = {slot: index for index, column in enumerate(layout.columns) for slot in column}
    for (source, target), route in layout.routes.items():
        columns = [column_of[slot] for slot in route]
        assert columns == list(range(columns[0], columns[0] + len(columns)))
        assert (route[0], route[-1]) == ((source,), (target,))


@given(order=st.permutations("abcdef"), pairs=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_without_cycles_every_edge_runs_forward(order: list[str], pairs: set[tuple[int, int]]) -> None:
    """In an acyclic graph no edge runs back."""
    edges = {(order[low], order[high]): 1.0 for low, high in pairs if low < high}
    assert set(arrange(edges).routes) == set(edges)


def test_the_heavier_edge_chooses_the_direction() -> None:
    """Of two opposite edges the commoner runs forward."""
    assert set(arrange({("a", "b"): 5.0, ("b", "a"): 9.0}).routes) == {("b", "a")}


@given(edges=GRAPHS)
def test_equal_graphs_give_equal_layouts(edges: dict[tuple[str, str], float]) -> None:
    """The order in which edges were counted does not show."""
    assert arrange(edges) == arrange(dict(reversed(edges.items())))


def test_a_lone_node_is_placed_too() -> None:
    """A node that no edge touches stands in the first column; an empty graph has no columns."""
    assert arrange({}, nodes=["alone"]).columns == ((("alone",),),)
    assert arrange({}).columns == ()

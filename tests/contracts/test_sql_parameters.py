import pytest

from ratchet.contracts.source import SqlSource
from ratchet.contracts.sql_parameters import filled, parameters, unescaped, without_end

SQL = {"date": "D", "start": "S", "end": "E"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from t where day = :date", "select * from t where day = D"),
        ("t >= :start and t < :end", "t >= S and t < E"),
        (":date::date", "D::date"),
        ("day::date = (:date)::date", "day::date = (D)::date"),
        ("select ':date', \":date\", `:date`, :date", "select ':date', \":date\", `:date`, D"),
        ("select 'it''s :date' -- at :date\n, :date /* of :date */", "select 'it''s :date' -- at :date\n, D /* of :date */"),
        (r"select E'it\'s :date', :date", r"select E'it\'s :date', D"),
        ("select $$:date$$, $a$ :date $$ $a$, :date", "select $$:date$$, $a$ :date $$ $a$, D"),
        ("select -- it's\n :date", "select -- it's\n D"),
        (":dates, x:date, a[1:end], :start_of, :DATE", ":dates, x:date, a[1:end], :start_of, :DATE"),
    ],
)  # fmt: skip
def test_a_parameter_is_no_part_of_a_text_a_name_a_comment_or_a_cast(query: str, expected: str) -> None:
    assert filled(query, SQL) == expected
    assert bool(parameters(query)) == (query != expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select 1", "select 1"),
        ("select 1 ; -- done; really\n", "select 1"),
        ("select ';' /* all */ ; /* of it */ ;", "select ';'"),
        ("select '--'", "select '--'"),
    ],
)
def test_the_end_of_a_query_is_cut(query: str, expected: str) -> None:
    assert without_end(query) == expected


def test_a_query_that_was_written_for_sqlalchemy_means_the_same() -> None:
    assert (
        unescaped(filled(r"x\:\:date = :date and y = '12\:30' and z\:date", SQL))
        == "x::date = D and y = '12:30' and z:date"
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from t", "no parameter of the day"),
        ("select ':date' from t where day = day::date -- :date", "no parameter of the day"),
        ("select * from t where t >= :start", "has :start without :end"),
        ("select * from t where t < :end", "has :end without :start"),
    ],
)
def test_a_query_that_does_not_name_the_day_is_refused(query: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SqlSource(kind="sql", uri="sqlite:////x.db", query=query)
    for well in ("day = :date and t >= :start", "t >= :start and t < :end"):
        SqlSource(kind="sql", uri="sqlite:////x.db", query=f"select * from t where {well}")

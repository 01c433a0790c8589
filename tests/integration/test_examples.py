"""Programs as people write them (tests/examples, described in the README's
gallery), and what comes back of each."""

import pathlib
import re

import pytest

from client import png_size

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
ORDERS = ("product,count,price\napple,3,0.50\npear,2,0.75\napple,10,0.40\n"
          "quince,1,2.25\n")


def run(session, name, **arguments):
    return session.call((EXAMPLES / (name + ".py")).read_text(), timeout=60,
                        **arguments)


def fine(result):
    assert not result.is_error, result
    return result


def test_report_gives_table_chart_and_file(session):
    result = fine(run(session, "report"))
    assert "best month: 2026-" in result.stdout
    assert [plot["name"] for plot in result["plots"]] == ["figure-1.png"]
    assert png_size(result.images[0]) == (600, 350)
    assert "report.csv" in result.file_names
    assert "mean" in result["result"]


def test_subplots_give_one_figure(session):
    result = fine(run(session, "subplots"))
    assert re.fullmatch(r"correlation 0\.\d\d\n", result.stdout)
    assert [png_size(image) for image in result.images] == [(800, 600)]


def test_animation_gives_its_gif_alone(session):
    result = fine(run(session, "animation"))
    assert result.stdout == "saved wave.gif\n"
    assert [plot["name"] for plot in result["plots"]] == ["wave.gif"]
    assert result.images[0].startswith(b"GIF8")


def test_simulation_shows_only_the_last_state_of_its_bar(session):
    result = fine(run(session, "simulation"))
    assert re.fullmatch(r"\[#{30}\] 100%\npi is about 3\.1\d\d\n",
                        result.stdout), result


def test_excel_is_made_of_an_input_file(session):
    result = fine(run(session, "excel", files=[
        {"path": "data/orders.csv", "text": ORDERS}]))
    assert result.stdout.split() == ["apple", "5.50", "pear", "1.50",
                                     "quince", "2.25"]
    assert result.file_names == ["data/totals.xlsx"]


def test_cjk_chart_is_drawn_without_a_warning(session):
    result = fine(run(session, "cjk"))
    assert result.stdout == "完成 · できました · 완료\n"
    assert [plot["name"] for plot in result["plots"]] == ["气温.png"]


def test_crash_is_named_with_its_line(session):
    result = run(session, "crash")
    assert result["error_type"] == "crash" and result["returncode"] == 139
    assert result.stdout == "about to crash\n"
    assert "SIGSEGV" in result["error_message"]


def test_endless_search_keeps_what_it_found(session):
    result = run(session, "endless")
    assert result["error_type"] == "timeout", result
    assert result.stdout.startswith("searching\n")
    assert re.search(r"\b6 ?s", result["details"])
    assert result["exception"]["type"] == "TimeLimitExceeded"
    assert 3 <= result["exception"]["line"] <= 14
    assert "best.txt" in result.file_names


def test_memory_bomb_is_told_as_memory(session):
    result = run(session, "memory")
    assert result.is_error and result.stdout.startswith("filling\n")
    assert "memory" in result["details"].lower(), result
    assert "time limit" not in result.said
    assert session.call("print('next')").stdout == "next\n"


def test_fork_bomb_is_told_as_processes(session):
    result = run(session, "forks")
    assert result["error_type"] == "process_limit", result
    assert result.stdout.startswith("forking\n")
    assert session.call("print('next')").stdout == "next\n"

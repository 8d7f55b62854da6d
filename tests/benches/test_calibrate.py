"""The calibrations measure something."""

from pathlib import Path

from benches.lib import calibrate


def test_every_calibration_takes_time(tmp_path: Path) -> None:
    assert calibrate.work_s() > calibrate.cpu_s() / 10 > 0
    assert calibrate.fdatasync_s(tmp_path, flushes=3) > 0
    with calibrate.disk(tmp_path) as disk:
        assert disk.flush_s() > 0
        assert disk.flushes_s(3) > 0
    assert not list(tmp_path.iterdir())


def test_the_echo_process_answers_and_ends() -> None:
    with calibrate.echo() as echo:
        assert echo.round_trip_s(3) > 0
        assert echo.stream_s(3) > 0
        assert echo.stream_s(100) > 0

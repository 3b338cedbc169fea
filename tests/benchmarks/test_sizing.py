"""The table of sizes is the arithmetic of the rates and the assumptions."""

from benchmarks.sizing import HEADER, Assumptions, Rates, make_row

RATES = Rates(
    add=0.001,
    server=0.002,
    graph=0.003,
    small=0.030,
    static=0.0,
    table_bytes=8192,
    graph_bytes=1024,
    folder_bytes=4096,
    tokens=100,
    lance=0.004,
    lance_bytes=2048,
)


def test_a_row_is_the_arithmetic_of_rates_and_assumptions() -> None:
    size = 1 << 26  # 64 Mi chunks
    row = make_row(
        size, RATES, Assumptions(workers=64, memory=64, share=0.5, core_hour=0.1, disk_month=0.5, object_month=0.25)
    )
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == HEADER.count(" |")
    storage = 64 * 9  # GiB: 9 KiB a chunk
    hours = size * 0.036 / 3600
    assert cells == [
        "67,108,864",
        f"{storage} GiB",
        "64 GiB",
        "256 GiB",
        "128 GiB",
        f"{hours:,.0f}",
        f"{size * 0.006 / 3600:,.0f}",
        f"{size * 0.030 / 3600 / 64:.0f} h",
        "2",
        f"${hours * 0.1:,.0f}",
        f"${size * 100 / 1e6 * 0.02:,.0f}",
        f"${2 * 350 + storage * 0.5:,.0f}",
        f"${128 * 0.25:,.0f}",
    ]

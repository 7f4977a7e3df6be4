"""Results as HTML, for notebooks: `_repr_html_` of layouts, estimates and fits."""
from html import escape
from typing import Iterable, Mapping, Tuple

PICTURE_BODIES = 3000  # a picture of more buffers would make the notebook large; the page of tenure.report has zoom
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def people(count: int) -> str:
    """Bytes as the command prints them: 6,021,120 is '5.7 MiB'."""
    value, unit = float(count), 0
    while value >= 1024 and unit + 1 < len(UNITS):
        value, unit = value / 1024, unit + 1
    return "%d bytes" % count if unit == 0 else "%.1f %s" % (value, UNITS[unit])


def sizes(rows: Iterable[Tuple[str, object]]) -> str:
    """A table of two columns; integers are bytes."""
    made = "".join("<tr><th style='text-align:left'>%s</th><td style='text-align:right'%s>%s</td></tr>" % (
        escape(name), " title='%s bytes'" % format(value, ",") if isinstance(value, int) else "",
        escape(people(value) if isinstance(value, int) else str(value))) for name, value in rows)
    return "<table>%s</table>" % made


def bars(title: str, parts: Mapping[str, int]) -> str:
    """A table with a bar for each part, in proportion to the largest one; parts of zero bytes are left out."""
    most = max([*parts.values(), 1])
    made = "".join("<tr><td style='text-align:left'>%s</td><td style='text-align:right' title='%s bytes'>%s</td>"
                   "<td style='text-align:left;min-width:12em'><div style='background:#4878a8;height:0.8em;width:%.1f%%'>"
                   "</div></td></tr>" % (escape(name.replace("_", " ")), format(count, ","), people(count), 100 * count / most)
                   for name, count in parts.items() if count)
    return "<table><tr><th colspan='3' style='text-align:left'>%s</th></tr>%s</table>" % (escape(title), made)

"""Bars, stacked bars and lines as SVG, with axes, labels and legends."""
import math
from html import escape

COLOURS = ["#4269d0", "#efb118", "#3ca951", "#ff725c", "#a463f2", "#6cc5b0", "#9c6b4e", "#97bbf5", "#ff8ab7", "#9498a0"]
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 34, 46
# Attributes hold everywhere; a viewer that knows style sheets exchanges them where its user prefers dark pages.
PAPER, INK, GRID = "#ffffff", "#222222", "#dddddd"
STYLE = (f'<style>@media (prefers-color-scheme: dark) {{ [fill="{PAPER}"] {{ fill: #14171b }} [fill="{INK}"] {{ fill: #e7eaee }} '
         f'[stroke="{INK}"] {{ stroke: #e7eaee }} [stroke="{GRID}"] {{ stroke: #333a43 }} }}</style>')
# A narrower bar has its value written upwards.
LABEL_WIDTH = 24
# Width of a letter, in parts of the size of its text.
LETTER = 0.6


def ticks(most, wanted=5):
    """Round values from 0 to at least `most`."""
    step = 10 ** math.floor(math.log10(most / wanted)) if most > 0 else 1
    step *= next(factor for factor in (1, 2, 5, 10) if most / (step * factor) <= wanted)
    return [step * n for n in range(math.ceil(most / step - 1e-9) + 1)]


def broken(label, width, size):
    """A label in one row, or in two behind its first comma where one is wider than its place."""
    first, comma, rest = label.partition(", ")
    return [label] if not comma or len(label) * size * LETTER < width else [first + ",", rest]


def number(value):
    return f"{value:g}" if abs(value) < 1e5 else f"{value / 1000:g}k"


class Figure:
    """A panel with a title, a legend below it, and axes."""

    def __init__(self, title, x_label, y_label, width=760, height=320, legend=()):
        self.rows = max(1, math.ceil(len(legend) / 5)) if legend else 0
        self.width, self.height = width, height + 18 * self.rows
        self.plot = (LEFT, TOP + 18 * self.rows, width - LEFT - RIGHT, height - TOP - BOTTOM)
        self.parts = [STYLE, f'<rect width="{width}" height="{self.height}" fill="{PAPER}"/>']
        self.text(width / 2, 20, title, 14, "middle", bold=True)
        for index, name in enumerate(legend):
            x, y = LEFT + (index % 5) * (width - LEFT - RIGHT) / 5, TOP + 18 * (index // 5)
            self.parts.append(f'<rect x="{x:.1f}" y="{y - 9}" width="11" height="11" fill="{COLOURS[index % len(COLOURS)]}"/>')
            self.text(x + 15, y, name, 11)
        left, top, wide, high = self.plot
        self.text(left + wide / 2, self.height - 8, x_label, 12, "middle")
        self.text(16, top + high / 2, y_label, 12, "middle", turned=True)

    def text(self, x, y, words, size, anchor="start", bold=False, turned=False):
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-family="sans-serif" fill="{INK}" text-anchor="{anchor}"{weight}{turn}>'
            f"{escape(str(words))}</text>")

    def line(self, x1, y1, x2, y2, colour=GRID):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>')

    def y_axis(self, most):
        """Draws it and returns what turns a value into a height on the page."""
        left, top, wide, high = self.plot
        values = ticks(most)
        for value in values:
            y = top + high - high * value / values[-1]
            self.line(left, y, left + wide, y)
            self.text(left - 6, y + 4, number(value), 11, "end")
        self.line(left, top, left, top + high, INK)
        return lambda value: top + high - high * value / values[-1]

    def x_axis(self, most):
        left, top, wide, high = self.plot
        values = ticks(most, 8)
        for value in values:
            x = left + wide * value / values[-1]
            self.line(x, top + high, x, top + high + 4, INK)
            self.text(x, top + high + 17, number(value), 11, "middle")
        self.line(left, top + high, left + wide, top + high, INK)
        return lambda value: left + wide * value / values[-1]

    def save(self, path):
        with open(path, "w", encoding="utf-8") as out:
            out.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}">\n' + "\n".join(self.parts) + "\n</svg>\n")


def bars(path, title, y_label, groups, series, values, stacked=False, x_label="scenario, SLA"):
    """`values[group][name]`, side by side or on top of each other; what is missing is left out."""
    figure = Figure(title, x_label, y_label, legend=series)
    left, top, wide, high = figure.plot
    sums = [sum(v for v in of.values() if v) if stacked else max((v for v in of.values() if v), default=0) for of in values.values()]
    at = figure.y_axis(max(sums, default=1) * (1.0 if stacked else 1.12) or 1)
    slot = wide / max(1, len(groups))
    for index, group in enumerate(groups):
        x, floor = left + slot * (index + 0.1), 0.0
        each = slot * 0.8 / (1 if stacked else len(series))
        for place, name in enumerate(series):
            value = values[group].get(name)
            if value is None:
                continue
            # What is below zero is told by its label alone.
            y, base = at(floor + max(0, value)), at(floor)
            x_bar = x if stacked else x + place * each
            figure.parts.append(
                f'<rect x="{x_bar:.1f}" y="{min(y, base):.1f}" width="{each * 0.94:.1f}" height="{abs(base - y):.1f}" '
                f'fill="{COLOURS[place % len(COLOURS)]}"><title>{escape(f"{group}, {name}: {value:.4g}")}</title></rect>')
            if stacked:
                floor += value
            elif each >= LABEL_WIDTH:
                figure.text(x_bar + each * 0.47, y - 3, f"{value:.3g}", 9, "middle")
            else:
                figure.text(x_bar + each * 0.47 + 3, y - 3, f"{value:.3g}", 9, turned=True)
        size = 10 if len(groups) > 7 else 11
        for row, words in enumerate(broken(group, slot, size)):
            figure.text(left + slot * (index + 0.5), top + high + 17 + 10 * row, words, size, "middle")
    figure.line(left, top + high, left + wide, top + high, INK)
    figure.save(path)


def lines(path, title, x_label, y_label, series, steps=False, dashed=()):
    """`series` is a list of name and points; with `steps` a value holds until the next point."""
    figure = Figure(title, x_label, y_label, legend=[name for name, _ in series])
    most_x = max((x for _, points in series for x, _ in points), default=1)
    most_y = max((y for _, points in series for _, y in points), default=1)
    at_y, at_x = figure.y_axis(most_y * 1.02), figure.x_axis(most_x)
    for index, (name, points) in enumerate(series):
        path_of, before = [], None
        for x, y in points:
            if steps and before is not None:
                path_of.append(f"{at_x(x):.1f},{at_y(before):.1f}")
            path_of.append(f"{at_x(x):.1f},{at_y(y):.1f}")
            before = y
        dash = ' stroke-dasharray="5 4"' if name in dashed else ""
        figure.parts.append(
            f'<polyline points="{" ".join(path_of)}" fill="none" stroke="{COLOURS[index % len(COLOURS)]}" stroke-width="2"{dash}/>')
    figure.save(path)

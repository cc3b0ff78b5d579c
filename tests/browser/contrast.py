"""How well text stands out from what is behind it, measured in the browser."""

from playwright.sync_api import Page

LEAST = 4.5
"""WCAG 2.1 asks for this ratio of luminances for text of ordinary size (success criterion 1.4.3, level AA)."""

_MEASURE = """
(least) => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((value, place) => value * top[3] + below[place] * (1 - top[3]));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const faint = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const texts = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
    const words = texts.map((node) => node.textContent.trim()).join("");
    if (!words || element.closest("svg, script, style, noscript, .material-symbols-outlined")) continue;
    const box = element.getBoundingClientRect();
    const isSeen = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!box.width || !box.height || !isSeen) continue;
    const ground = behind(element);
    const ink = over(rgba(getComputedStyle(element).color), ground);
    const [light, dark] = [luminance(ink), luminance(ground)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < least) faint.add(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${words.slice(0, 40)}`);
  }
  return [...faint];
}
"""


def faint_texts(page: Page) -> list[str]:
    """The texts on a page whose contrast is too low, each with its ratio."""
    found: list[str] = page.evaluate(_MEASURE, LEAST)
    return found

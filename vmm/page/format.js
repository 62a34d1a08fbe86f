// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers and times for people, and elements without any markup from data.

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const scales = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
const prefixes = [[1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];

export const number = value => grouped.format(value);

// step: what has to be told apart.
function scaled(value, step, list) {
    const [unit, word] = list.find(([size]) => Math.abs(value) >= size) ?? list.at(-1);
    const digits = Math.min(Math.max(Math.ceil(Math.log10(unit / step)), 0), 9);

    return [(value / unit).toFixed(digits), word];
}

export function time(value, unit, step = Math.abs(value) / 1000 || 1) {
    if (value === 0)
        return unit === 'ns' ? '0 s' : '0';
    if (unit === 'ns') {
        const [text, word] = scaled(value, Math.max(step, 1), scales);

        return `${text} ${word}`;
    }
    const [text, word] = scaled(value, Math.max(step, 1), prefixes);

    return text + word;
}

export const percent = part => `${(100 * part).toFixed(part < 0.1 ? 2 : 1)} %`;

// element('p', { class: 'note' }, 'text', other): attributes, and texts or elements in it.
export function element(tag, attributes = {}, ...inside) {
    const made = document.createElement(tag);

    for (const [name, value] of Object.entries(attributes))
        made.setAttribute(name, value);
    made.append(...inside);
    return made;
}

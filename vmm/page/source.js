// SPDX-License-Identifier: BSD-3-Clause
//
// The source of one function: its lines, and how much of it each ran.
import { element, number, percent } from './format.js';
import { plain } from './data.js';

// A tab is no control that is to be seen here.
const words = text => text.split('\t').map(plain).join('\t');

function row({ line, ran, text }, all, before) {
    const share = element('span', { class: 'share' }, ran ? percent(ran / all) : '');
    const cells = [number(ran), share, String(line), element('code', {}, text === undefined ? '' : words(text))];
    const made = element('tr', { class: ran ? 'ran' : '', ...(before && line > before + 1 && { 'data-gap': '' }) },
        ...cells.map((cell, i) => element('td', {}, i === 0 && !ran ? '' : cell)));

    made.style.setProperty('--part', `${100 * ran / all}%`);
    return made;
}

function fileOf({ file, insns, lines }, all) {
    const body = element('tbody', {}, ...lines.map((one, i) => row(one, all, lines[i - 1]?.line)));

    return [element('h3', {}, file, element('span', { class: 'quiet' }, ` ${number(insns)} instructions`)),
        element('table', { class: 'lines' }, element('thead', {}, element('tr', {}, ...['Instructions', 'Share', 'Line', 'Source']
            .map(title => element('th', { scope: 'col' }, title)))), body)];
}

// Shows them in place, which is emptied before.
export function showSource(place, name, sources) {
    const files = sources.get(name);
    const all = (files ?? []).reduce((sum, one) => sum + one.insns, 0);

    place.replaceChildren(element('h2', {}, plain(name)), ...(files ? files.flatMap(one => fileOf(one, all))
        : [element('p', { class: 'note' }, 'No line of a source is known of this function.')]));
    place.hidden = false;
    place.scrollTop = 0;
}

// SPDX-License-Identifier: BSD-3-Clause
//
// What stands in each view that is a table.
import { element, number, percent, time } from './format.js';
import { plain } from './data.js';
import { showSource } from './source.js';
import { chooseRows, count, share, table, text, times } from './tables.js';

const withShares = (rows, key, all) => rows.map(row => ({ ...row, share: all ? row[key] / all : 0 }));

function card(title, value) {
    return element('div', { class: 'card' }, element('span', { class: 'quiet' }, title), element('strong', {}, value));
}

function section(place, title, isSmall) {
    const inside = element('div', { class: isSmall ? 'table small' : 'table' });

    place.append(element('section', { class: isSmall ? '' : 'tall' }, element('h2', {}, title), inside));
    return inside;
}

export async function overview(page, place) {
    const { report, unit } = page, isTimed = report.time !== undefined, cards = element('div', { class: 'cards' });
    const finest = Math.max(1, ...page.tracks.map(track => track.levels[0]?.piece ?? 1));

    place.append(cards);
    cards.append(card('Instructions', number(report.instructions)), card('Blocks', number(report.blocks)));
    if (isTimed)
        cards.append(card('Time', time(report.time, unit)), card('Not traced', time(report.untraced_time, unit)));
    cards.append(card('VM exits', number(report.exit_count)), card('Interrupts', number(report.interrupt_count)),
        card('Errors', number(report.error_count)), card('Bytes lost', number(report.lost_bytes)));
    const notes = [
        finest > 1 && `Calls of less than ${time(finest, unit)} ${unit === 'ns' ? '' : unit} that are next to each other are one box in the time line.`,
        page.least > 0 && `The tree of calls leaves out what is less than ${number(page.least)} instructions.`,
        (page.cutOff || page.tooDeep || report.cut_off) && 'There was more than there is room for: something is missing in the time line or the tables.',
    ].filter(Boolean);
    notes.forEach(note => place.append(element('p', { class: 'note' }, note)));
    const isShown = key => report.who.some(row => row[key] !== undefined);

    return [await table(section(place, 'Who ran'), [
        ...(isShown('vm') ? [text('VM', 'vm')] : []), text('Process', 'process'), ...(isShown('pid') ? [count('pid', 'pid')] : []),
        ...(isShown('tid') ? [count('tid', 'tid')] : []), ...(isShown('cr3') ? [text('CR3', 'cr3')] : []),
        share('Share', 'share'), count('Instructions', 'instructions'), ...(isTimed ? [times('Time', 'time', unit)] : []),
    ], withShares(report.who, 'instructions', report.instructions))];
}

export async function functions(page, place) {
    const { report, unit, sources } = page, isTimed = report.time !== undefined;
    const source = element('section', { class: 'source', hidden: '', tabindex: '0', 'aria-label': 'Source' });
    const made = await table(section(place, 'Functions'), [
        text('Function', 'function'), text('File', 'file', { widthGrow: 1 }), share('Share', 'share'), count('Instructions', 'instructions'),
        ...(isTimed ? [times('Time', 'time', unit)] : []), count('Calls', 'calls'), count('Blocks', 'blocks'),
    ], withShares(report.functions, 'instructions', report.instructions));

    if (sources.size > 0) {
        place.append(source);
        chooseRows(made, row => showSource(source, row.function, sources));
    }
    return [made];
}

export async function calls(page, place) {
    const all = page.nodes[0], isTimed = page.unit !== 'instructions';
    const rows = node => node.children.map(child => ({ name: child.name, share: all.insns ? child.insns / all.insns : 0, insns: child.insns,
        self: child.selfInsns, time: child.time, calls: child.calls, node: child, ...(child.children.length && { _children: rows(child) }) }));

    return [await table(section(place, 'Calls'), [
        text('Function', 'name', { headerSort: false }), share('Share', 'share'), count('Instructions', 'insns'), count('By itself', 'self'),
        ...(isTimed ? [times('Time', 'time', page.unit)] : []), count('Calls', 'calls'),
    ], rows(all), { dataTree: true, dataTreeStartExpanded: (row, level) => level < 2, dataTreeFilter: false })];
}

export async function events(page, place) {
    const { report, latencies, unit } = page, made = [];

    if (report.exit_count)
        made.push(await table(section(place, 'VM exits, and how long until the VM was entered again', true), latencies.length ? [
            text('Reason', 'name'), count('Count', 'count'), times('Least', 'least', unit), times('Median', 'median', unit),
            times('90 %', 'p90', unit), times('99 %', 'p99', unit), times('Most', 'most', unit), times('Together', 'total', unit),
        ] : [text('Reason', 'name'), count('Count', 'count'), count('Instructions', 'instructions')],
        latencies.length ? latencies : report.exits, { height: false }));
    for (const [title, list, what] of [['Interrupts and exceptions', report.interrupts, 'name'], ['System calls', report.system_calls, 'function'],
        ['What was lost', report.errors, 'name']]) {
        if (!list.length)
            continue;
        made.push(await table(section(place, title, true), [text('What', what), ...(what === 'function' ? [count('Calls', 'calls')]
            : [count('Count', 'count')]), ...(list[0].vector === undefined ? [] : [count('Vector', 'vector')]),
        ...(list[0].lost_bytes === undefined ? [] : [count('Bytes lost', 'lost_bytes')])], list, { height: false }));
    }
    if (!made.length)
        place.append(element('p', { class: 'note' }, 'No VM exits, interrupts, system calls or errors.'));
    return made;
}

export function about(page, place) {
    const keys = [['1 … 7', 'a view'], ['/', 'search; Enter: the next one'], ['t', 'light or dark'], ['w s', 'time line: zoom'],
        ['a d ← →', 'time line: earlier, later'], ['↑ ↓', 'time line: tracks above, below'], ['0', 'time line: all of it'],
        ['← → ↑ ↓', 'flame graph: another box'], ['↑ ↓', 'functions: the next one, with its source'], ['Enter, Esc', 'flame graph: zoom to it; back to all']];

    place.append(element('h2', {}, 'Keys'), element('dl', {}, ...keys.flatMap(([key, what]) =>
        [element('dt', {}, key), element('dd', {}, what)])), element('h2', {}, 'Licences of what is in this page'),
    element('p', { class: 'note' }, 'vpt itself: BSD-3-Clause.'),
    ...LICENCES.map(one => element('details', {}, element('summary', {}, `${one.name} ${one.version}: ${one.licence}`),
        element('pre', {}, one.text))));
    return [];
}

// SPDX-License-Identifier: BSD-3-Clause
//
// Tables: functions, the tree of calls, who ran, what happened.
import { DataTreeModule, FilterModule, FormatModule, InteractionModule, ResizeColumnsModule, ResizeTableModule, SortModule,
    Tabulator } from 'tabulator-tables';
import { element, number, percent, time } from './format.js';
import { plain } from './data.js';

Tabulator.registerModule([DataTreeModule, FilterModule, FormatModule, InteractionModule, ResizeColumnsModule,
    ResizeTableModule, SortModule]);

// A cell's content is an element with text in it, never markup.
const textCell = cell => element('span', { title: plain(cell.getValue() ?? '') }, plain(cell.getValue() ?? ''));
const numberCell = cell => (cell.getValue() === undefined ? '' : number(cell.getValue()));
const shareCell = cell => element('span', {}, percent(cell.getValue() || 0));

export const text = (title, field, more = {}) => ({ title, field, formatter: textCell, widthGrow: 3, minWidth: 120, ...more });
export const count = (title, field, more = {}) => ({ title, field, formatter: numberCell, hozAlign: 'right', headerHozAlign: 'right',
    sorter: 'number', headerSortStartingDir: 'desc', minWidth: 90, ...more });
export const share = (title, field) => count(title, field, { formatter: shareCell });
export const times = (title, field, unit) => count(title, field,
    { formatter: cell => (cell.getValue() === undefined ? '' : time(cell.getValue(), unit)) });

// A row is chosen by a click, and the next ones by ArrowUp and ArrowDown.
export function chooseRows(table, isChosen) {
    let chosen = null;
    const choose = row => {
        chosen?.getElement().classList.remove('chosen');
        chosen = row;
        row.getElement().classList.add('chosen');
        isChosen(row.getData());
    };

    table.on('rowClick', (event, row) => choose(row));
    table.chooseNext = key => {
        const rows = table.getRows('active'), step = { ArrowDown: 1, ArrowUp: -1 }[key];
        const next = step && rows[rows.indexOf(chosen) + step];

        if (next) {
            choose(next);
            table.scrollToRow(next, 'center', false).catch(() => {});
        }
        return Boolean(next);
    };
}

export function table(place, columns, data, more = {}) {
    return new Promise(done => {
        const made = new Tabulator(place, { columns, data, layout: 'fitColumns', placeholder: 'Nothing', height: '100%', ...more });

        made.on('tableBuilt', () => done(made));
    });
}

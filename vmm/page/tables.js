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

export function table(place, columns, data, more = {}) {
    return new Promise(done => {
        const made = new Tabulator(place, { columns, data, layout: 'fitColumns', placeholder: 'Nothing', height: '100%', ...more });

        made.on('tableBuilt', () => done(made));
    });
}

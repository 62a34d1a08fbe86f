// SPDX-License-Identifier: BSD-3-Clause
//
// The page of vpt report --html: views, search, keys.
import 'tabulator-tables/dist/css/tabulator_simple.min.css';
import './style.css';
import { load } from './data.js';
import { Flame } from './flame.js';
import { element, number } from './format.js';
import { beginTheme, toggleTheme } from './theme.js';
import { Timeline } from './timeline.js';
import { about, calls, events, functions, overview } from './views.js';

const page = load();
const field = document.getElementById('search');

const search = {
    words: '',
    isSet: () => search.words !== '',
    matches: name => String(name).toLowerCase().includes(search.words),
};

// A view is made when it is first shown.
const ofTables = make => (place, view) => make(page, place).then?.(tables => {
    view.tables = tables;
    filter(view);
});
const ofChart = kind => (place, view) => {
    view.chart = new kind(page, place, search);
};
const views = [
    { name: 'Overview', make: ofTables(overview), fields: ['vm', 'process', 'cr3'] },
    { name: 'Time line', make: ofChart(Timeline) },
    { name: 'Flame graph', make: ofChart(Flame) },
    { name: 'Calls', make: ofTables(calls), fields: ['name'], isTree: true },
    { name: 'Functions', make: ofTables(functions), fields: ['function', 'file'] },
    { name: 'Events', make: ofTables(events), fields: ['name', 'function'] },
    { name: 'About', make: (place) => about(page, place) },
];
let shown = views[0];

function holds(view, row) {
    return view.fields.some(name => row[name] !== undefined && search.matches(row[name])) ||
        (view.isTree && (row._children ?? []).some(child => holds(view, child)));
}

function filter(view) {
    for (const table of view.tables ?? [])
        search.isSet() ? table.setFilter(row => holds(view, row)) : table.clearFilter();
    view.chart?.update();
}

function show(view) {
    for (const one of views) {
        one.place.hidden = one !== view;
        one.tab.setAttribute('aria-selected', `${one === view}`);
    }
    shown = view;
    document.body.dataset.view = view.name;
    if (!view.made) {
        view.made = true;
        view.make(view.place, view);
    }
    view.chart?.begin();
    filter(view);
}

function countFound() {
    const found = page.names.filter(search.matches).length;

    document.getElementById('found').textContent = search.isSet() ? `${number(found)} names` : '';
}

// Where in the flame graph the next one is; the widest first.
function next() {
    const flame = views[2].chart;

    if (shown !== views[2] || !search.isSet())
        return;
    const found = page.nodes.filter(node => search.matches(node.name)).sort((a, b) => b.insns - a.insns);

    if (found.length)
        flame.zoomTo(found[(found.indexOf(flame.root) + 1) % found.length]);
}

// Whether the view does something with it.
function keyOf(view, key) {
    return view.chart ? view.chart.key(key) : (view.tables ?? []).some(table => table.chooseNext?.(key));
}

function onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey)
        return;
    if (event.target === field) {
        if (event.key === 'Enter')
            next();
        if (event.key === 'Escape')
            field.blur();
        return;
    }
    const view = views[Number(event.key) - 1];
    const isTab = event.target.getAttribute?.('role') === 'tab';

    if (event.key === '/')
        field.focus();
    else if (event.key === 't')
        toggleTheme();
    else if (view)
        show(view);
    else if ((event.target instanceof HTMLButtonElement && !isTab && event.key === 'Enter') || !keyOf(shown, event.key))
        return;
    event.preventDefault();
}

function begin() {
    const tabs = document.querySelector('nav');

    views.forEach((view, i) => {
        view.tab = element('button', { type: 'button', role: 'tab', title: `${view.name} (${i + 1})` }, view.name);
        view.tab.addEventListener('click', () => show(view));
        view.place = element('div', { class: 'view', role: 'tabpanel', 'aria-label': view.name });
        tabs.append(view.tab);
        document.querySelector('main').append(view.place);
    });
    beginTheme();
    field.addEventListener('input', () => {
        search.words = field.value.trim().toLowerCase();
        countFound();
        filter(shown);
    });
    document.addEventListener('keydown', onKey);
    show(views[0]);
    requestAnimationFrame(() => {
        document.body.dataset.ready = `${Math.round(performance.now())}`;
    });
}

begin();

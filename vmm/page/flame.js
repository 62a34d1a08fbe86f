// SPDX-License-Identifier: BSD-3-Clause
//
// The flame graph, its root at the top: how wide a box is says what ran in a function and below it.
import { boxes, chartIn, laneHeight, tooltip } from './charts.js';
import { element, number, percent, time } from './format.js';
import { onTheme } from './theme.js';

export class Flame {
    constructor(page, place, search) {
        this.page = page;
        this.search = search;
        this.root = this.at = page.nodes[0];
        this.metric = page.unit === 'instructions' || !this.root.time ? 'insns' : 'time';
        this.detail = element('p', { class: 'detail', 'aria-live': 'polite' });
        this.canvas = element('div', { class: 'canvas flame', tabindex: '0', 'aria-label': 'Flame graph: arrows, Enter, Escape' });
        this.choice = element('button', { type: 'button' });
        this.choice.addEventListener('click', () => {
            this.metric = this.metric === 'time' ? 'insns' : 'time';
            this.update();
        });
        this.choice.hidden = this.metric === 'insns';
        this.scroller = element('div', { class: 'scroller' }, this.canvas);
        place.append(element('div', { class: 'bar' }, this.choice, this.detail), this.scroller);
        onTheme(() => this.update());
    }

    begin() {
        if (this.chart)
            return;
        this.chart = chartIn(this.canvas);
        this.chart.on('click', event => this.zoomTo(this.shown[event.dataIndex].node));
        new ResizeObserver(() => this.update()).observe(this.scroller);
    }

    zoomTo(node) {
        this.root = this.at = node;
        this.update();
    }

    key(key) {
        const { at } = this, side = at.parent?.children.filter(node => node[this.metric]) ?? [at];
        const keys = {
            ArrowUp: () => at.parent ?? at, ArrowDown: () => at.children[0] ?? at,
            ArrowLeft: () => side[side.indexOf(at) - 1] ?? at, ArrowRight: () => side[side.indexOf(at) + 1] ?? at,
        };

        if (key === 'Enter' || key === 'Escape') {
            this.zoomTo(key === 'Enter' ? at : this.page.nodes[0]);
            return true;
        }
        if (!(key in keys))
            return false;
        this.at = keys[key]();
        this.update();
        return true;
    }

    value(node) {
        return this.metric === 'insns' ? `${number(node.insns)} instructions` : time(node.time, this.page.unit);
    }

    tip(node) {
        const all = this.page.nodes[0][this.metric] || 1;
        const self = this.metric === 'insns' ? number(node.selfInsns) : time(node.selfTime, this.page.unit);

        return `${node.name}\n${this.value(node)}, ${percent(node[this.metric] / all)} of all\nby itself ${self}, called ${number(node.calls)} times`;
    }

    // Boxes of less than half a pixel are left out.
    collect() {
        const { metric, root } = this, shown = [], least = root[metric] / this.canvas.clientWidth / 2;
        const above = [];

        for (let node = root.parent; node; node = node.parent)
            above.unshift(node);
        const add = (node, from, to, lane) => shown.push({ node, from, to, lane, name: node.name, text: node.name, tip: this.tip(node),
            isFaint: above.includes(node) || (this.search.isSet() && !this.search.matches(node.name)),
            isMarked: node === this.at || (this.search.isSet() && this.search.matches(node.name)) });

        above.forEach((node, lane) => add(node, 0, root[metric], lane));
        const todo = [[root, 0, above.length]];

        while (todo.length) {
            const [node, from, lane] = todo.pop();
            let next = from;

            add(node, from, from + node[metric], lane);
            for (const child of node.children) {
                if (child[metric] > least)
                    todo.push([child, next, lane + 1]);
                next += child[metric];
            }
        }
        return shown;
    }

    update() {
        if (!this.chart || !this.canvas.clientWidth)
            return;
        this.choice.textContent = this.metric === 'time' ? 'Time: show instructions' : 'Instructions: show time';
        this.shown = this.collect();
        const lanes = this.shown.reduce((most, one) => Math.max(most, one.lane), 0) + 1;

        this.canvas.style.height = `${Math.max(Math.min(lanes, 800) * laneHeight + 8, 100)}px`;
        this.chart.resize();
        this.chart.setOption({
            animation: false,
            grid: { left: 4, right: 4, top: 4, height: lanes * laneHeight },
            xAxis: { type: 'value', min: 0, max: this.root[this.metric] || 1, show: false },
            yAxis: { type: 'value', min: 0, max: lanes, inverse: true, show: false },
            tooltip: tooltip(),
            series: [boxes(this.shown.length, i => this.shown[i])],
        });
        this.detail.textContent = this.tip(this.at).replaceAll('\n', ' · ');
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//
// The time line: a row for each track, and as much detail as there are pixels for.
import { boxes, chartIn, laneHeight, tooltip } from './charts.js';
import { spansOf } from './data.js';
import { element, number, time } from './format.js';
import { colour, onTheme } from './theme.js';

const labelWidth = 230, axisHeight = 28, sliderHeight = 34;
const boxesMax = 12000, pixelsOfPiece = 2;

export class Timeline {
    constructor(page, place, search) {
        this.page = page;
        this.search = search;
        this.from = 0;
        this.to = page.length;
        this.closed = new Set();
        this.shown = [];
        this.turn = 0;
        this.labels = element('div', { class: 'labels', role: 'tree', 'aria-label': 'Tracks' });
        this.canvas = element('div', { class: 'canvas', tabindex: '0', 'aria-label': 'Time line: w s a d, arrows' });
        this.space = element('div', { class: 'space' });
        this.scroller = element('div', { class: 'scroller' }, element('div', { class: 'sticky' }, this.labels, this.canvas), this.space);
        this.detail = element('p', { class: 'detail', 'aria-live': 'polite' },
            'Click a box for details, double-click to zoom to it. Ctrl and the wheel zoom, dragging moves.');
        place.append(this.scroller, this.detail);
        this.layOut();
        this.scroller.addEventListener('scroll', () => this.update());
        onTheme(() => this.update());
    }

    // Rows from top to bottom; who has one child and nothing else is one row with it.
    layOut() {
        this.rows = [];
        let lane = 0;
        const add = (track, level) => {
            const isOpen = !this.closed.has(track.id);
            const lanes = Math.max(isOpen ? track.depth : Math.min(track.depth, 1), 1);

            if (!track.depth && track.children.length === 1 && track.kind === 'process') {
                add(track.children[0], level);
                return;
            }
            this.rows.push({ track, level, lane, lanes, isOpen });
            lane += lanes + (track.depth ? 0.4 : 0.1);
            if (isOpen || track.depth)
                track.children.forEach(child => add(child, level + 1));
        };
        const isFirst = track => (track.kind === 'processor' ? 0 : 1);

        [...this.page.tracks[0].children].sort((a, b) => isFirst(a) - isFirst(b)).forEach(track => add(track, 0));
        this.lanes = lane;
    }

    begin() {
        if (this.chart)
            return;
        this.chart = chartIn(this.canvas);
        this.chart.on('datazoom', event => {
            if (event.isOwn)
                return;
            const { startValue, endValue } = this.chart.getOption().dataZoom[0];

            this.from = startValue;
            this.to = endValue;
            this.update();
        });
        this.chart.on('click', event => this.tell(this.shown[event.dataIndex]));
        this.chart.on('dblclick', event => {
            const one = this.shown[event.dataIndex];

            this.zoomTo(one.from - (one.to - one.from) * 0.05, one.to + (one.to - one.from) * 0.05);
        });
        new ResizeObserver(() => {
            this.chart.resize();
            this.update();
        }).observe(this.canvas);
    }

    tell(one) {
        if (one)
            this.detail.textContent = one.tip.replaceAll('\n', ' · ');
    }

    zoomTo(from, to) {
        const length = Math.min(Math.max(to - from, 1), this.page.length);

        this.from = Math.min(Math.max(from, 0), this.page.length - length);
        this.to = this.from + length;
        this.chart.dispatchAction({ type: 'dataZoom', startValue: this.from, endValue: this.to, isOwn: true });
        this.update();
    }

    zoom(factor) {
        const middle = (this.from + this.to) / 2, half = (this.to - this.from) / 2 * factor;

        this.zoomTo(middle - half, middle + half);
    }

    move(part) {
        const by = (this.to - this.from) * part;

        this.zoomTo(this.from + by, this.to + by);
    }

    key(key) {
        const keys = {
            w: () => this.zoom(0.5), '+': () => this.zoom(0.5), s: () => this.zoom(2), '-': () => this.zoom(2),
            a: () => this.move(-0.25), ArrowLeft: () => this.move(-0.25),
            d: () => this.move(0.25), ArrowRight: () => this.move(0.25),
            ArrowUp: () => this.scroller.scrollBy(0, -5 * laneHeight),
            ArrowDown: () => this.scroller.scrollBy(0, 5 * laneHeight),
            0: () => this.zoomTo(0, this.page.length),
        };

        keys[key]?.();
        return key in keys;
    }

    // The coarsest level in which a piece of time is no more than some pixels.
    levelOf(track, piece) {
        return track.levels.findLast(level => level.piece <= piece) ?? track.levels[0];
    }

    async collect(row, top, bottom, piece) {
        const found = [];

        if (!row.track.levels.length)
            return found;
        for (const chunk of this.levelOf(row.track, piece).chunks) {
            if (chunk.start > this.to || chunk.end < this.from)
                continue;
            const spans = chunk.spans ?? await spansOf(this.page, chunk);

            for (let i = 0; i < spans.count; i++) {
                const start = spans.start[i], lane = row.lane + spans.depth[i];

                if (start > this.to)
                    break;
                if (start + spans.length[i] >= this.from && spans.depth[i] < row.lanes && lane + 1 >= top && lane <= bottom)
                    found.push(this.boxOf(row.track, spans, i, lane - top));
            }
        }
        return found;
    }

    boxOf(track, spans, i, lane) {
        const { page } = this, name = page.names[spans.name[i]], more = spans.more[i];
        const step = (this.to - this.from) / 1000;

        return {
            from: spans.start[i], to: spans.start[i] + spans.length[i], lane, name, track,
            text: more ? `${name} ×${number(more + 1)}` : name,
            isFaint: this.search.isSet() && !this.search.matches(name),
            isMarked: this.search.isSet() && this.search.matches(name),
            tip: `${name}\n${more ? `the longest of ${number(more + 1)}, together ` : ''}` +
                `${time(spans.length[i], page.unit)} ${page.unit === 'ns' ? '' : page.unit}\n` +
                `at ${time(spans.start[i], page.unit, step)}, depth ${spans.depth[i]}\n${track.name}`,
        };
    }

    async update() {
        if (!this.chart || !this.canvas.clientWidth)
            return;
        const turn = ++this.turn;

        document.body.dataset.window = `${this.from} ${this.to}`;
        document.body.dataset.turn = turn;
        const needed = this.lanes * laneHeight + axisHeight + sliderHeight - this.scroller.clientHeight;

        this.space.style.height = `${Math.max(needed, 0)}px`;

        const width = this.canvas.clientWidth - 16, height = this.canvas.clientHeight - axisHeight - sliderHeight;
        const top = this.scroller.scrollTop / laneHeight, bottom = top + height / laneHeight;
        const rows = this.rows.filter(row => row.lane + row.lanes >= top && row.lane <= bottom);
        let shown, piece = (this.to - this.from) / width * pixelsOfPiece;

        do {
            shown = (await Promise.all(rows.map(row => this.collect(row, top, bottom, piece)))).flat();
            piece *= 4;
        } while (shown.length > boxesMax && piece < this.page.length);
        if (turn !== this.turn)
            return;
        this.shown = shown.slice(0, boxesMax);
        this.drawLabels(rows, top);
        this.draw(bottom - top);
        document.body.dataset.boxes = this.shown.length;
        document.body.dataset.drawn = turn;
    }

    draw(lanes) {
        const { unit, length } = this.page;

        this.chart.setOption({
            animation: false,
            grid: { left: 4, right: 12, top: axisHeight, bottom: sliderHeight, containLabel: false },
            xAxis: { type: 'value', min: 0, max: length, position: 'top', splitLine: { lineStyle: { color: colour('line') } },
                axisLine: { show: false }, axisTick: { show: false },
                axisLabel: { color: colour('quiet'), hideOverlap: true, showMinLabel: false, showMaxLabel: false,
                    formatter: value => time(value, unit, (this.to - this.from) / 50) } },
            yAxis: { type: 'value', min: 0, max: lanes, inverse: true, show: false },
            tooltip: tooltip(),
            dataZoom: [
                { type: 'inside', filterMode: 'none', zoomOnMouseWheel: 'ctrl', moveOnMouseMove: true, moveOnMouseWheel: 'shift',
                    minValueSpan: 1, throttle: 30 },
                { type: 'slider', filterMode: 'none', bottom: 4, height: 20, showDetail: false, showDataShadow: false, brushSelect: false,
                    borderColor: colour('line'), fillerColor: colour('filler'), minValueSpan: 1,
                    handleStyle: { color: colour('accent') }, moveHandleStyle: { color: colour('quiet') } },
            ],
            series: [boxes(this.shown.length, i => this.shown[i])],
        });
    }

    drawLabels(rows, top) {
        this.labels.replaceChildren(...rows.map(row => {
            const { track } = row;
            const label = element('button', { type: 'button', class: `label ${track.kind}`, role: 'treeitem', tabindex: '-1',
                'aria-level': `${row.level + 1}`, 'aria-expanded': `${row.isOpen}`, title: track.name }, track.name);

            label.style.top = `${axisHeight + (row.lane - top) * laneHeight}px`;
            label.style.paddingLeft = `${10 + 14 * row.level}px`;
            label.addEventListener('click', () => {
                this.closed.has(track.id) ? this.closed.delete(track.id) : this.closed.add(track.id);
                this.layOut();
                this.update();
            });
            return label;
        }));
        this.labels.style.width = `${labelWidth}px`;
    }
}

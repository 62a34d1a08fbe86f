// SPDX-License-Identifier: BSD-3-Clause
//
// The chart library, and the rectangles with names that both charts are made of.
import * as echarts from 'echarts/core';
import { CustomChart } from 'echarts/charts';
import { DataZoomComponent, GridComponent, TooltipComponent } from 'echarts/components';
import { CanvasRenderer } from 'echarts/renderers';
import { colour, colourOf } from './theme.js';

echarts.use([CustomChart, DataZoomComponent, GridComponent, TooltipComponent, CanvasRenderer]);

export const laneHeight = 18;
export const font = '11px system-ui, sans-serif';

export const chartIn = place => echarts.init(place, null, { renderer: 'canvas' });

// A series of boxes: box(i) gives { from, to, lane, name, text, isFaint }, lane 0 at the top.
export function boxes(count, box) {
    return {
        type: 'custom',
        animation: false,
        clip: true,
        dimensions: ['index'],
        data: Array.from({ length: count }, (_, i) => [i]),
        renderItem: (params, api) => {
            const one = box(params.dataIndex);
            const area = params.coordSys;
            const [left, top] = api.coord([one.from, one.lane]);
            const right = api.coord([one.to, one.lane])[0];
            const x = Math.max(left, area.x), width = Math.max(Math.min(right, area.x + area.width) - x, 1);
            const shape = { x, y: top + 1, width, height: laneHeight - 2, r: width > 6 ? 2 : 0 };

            if (x > area.x + area.width || x + width < area.x)
                return null;
            return {
                type: 'rect',
                shape,
                style: { fill: colourOf(one.name, one.isFaint),
                    ...(one.isMarked && { stroke: colour('accent'), lineWidth: 2 }) },
                ...(width > 28 && {
                    textContent: { type: 'text', style: { text: one.text, fill: colour(one.isFaint ? 'quiet' : 'text'), font,
                        width: width - 8, overflow: 'truncate', ellipsis: '…' } },
                    textConfig: { position: 'insideLeft', distance: 4 },
                }),
            };
        },
        tooltip: { formatter: params => box(params.dataIndex).tip },
    };
}

// Text in a canvas: no name becomes markup.
export const tooltip = () => ({
    renderMode: 'richText', confine: true, backgroundColor: colour('raised'), borderColor: colour('line'),
    textStyle: { color: colour('text'), fontSize: 12 }, transitionDuration: 0,
});

// SPDX-License-Identifier: BSD-3-Clause
//
// The data in the page: names, tracks with their levels of detail, and the tree of calls.

// Controls and marks that turn the order of letters around are shown by their numbers.
const unseen = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff]/g;

export function plain(text) {
    return String(text).replace(unseen, mark => `\\u${mark.codePointAt(0).toString(16).padStart(4, '0')}`);
}

function bytesOf(base64) {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);

    for (let i = 0; i < text.length; i++)
        bytes[i] = text.charCodeAt(i);
    return bytes;
}

async function inflate(base64) {
    const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream('deflate'));

    return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Columns of numbers, of 7 bits a byte, the lowest first (vmm/report/page-chunks.h).
function columnsOf(bytes, count) {
    let at = 0;
    const next = () => {
        let value = 0, unit = 1, byte;

        do {
            byte = bytes[at++];
            value += (byte & 0x7f) * unit;
            unit *= 128;
        } while (byte & 0x80);
        return value;
    };
    const column = kind => {
        const list = new kind(count);

        for (let i = 0; i < count; i++)
            list[i] = next();
        return list;
    };

    return [Float64Array, Float64Array, Uint16Array, Uint32Array, Uint32Array].map(column);
}

async function unpack(chunk, lines) {
    const [start, length, depth, name, more] = columnsOf(await inflate(lines[chunk.line]), chunk.count);

    start[0] += chunk.start;
    for (let i = 1; i < chunk.count; i++)
        start[i] += start[i - 1];
    chunk.spans = { count: chunk.count, start, length, depth, name, more };
    return chunk.spans;
}

// The spans of a chunk, now or later.
export function spansOf(page, chunk) {
    chunk.pending ??= unpack(chunk, page.lines);
    return chunk.pending;
}

function tracksOf(list, names) {
    const tracks = [{ children: [], levels: [] }];

    for (const [i, one] of list.entries()) {
        const levels = one.levels.map(([shift, ...chunks]) => ({
            piece: 2 ** shift,
            chunks: chunks.map(([line, start, end, count]) => ({ line, start, end, count })),
        }));

        tracks.push({ id: i + 1, kind: one.kind, parent: one.parent, name: names[one.name], depth: one.depth,
            levels, children: [] });
    }
    for (const track of tracks.slice(1))
        tracks[track.parent].children.push(track);
    return tracks;
}

// Nodes with what is below them; the first is above all of them.
function treeOf(tree, names) {
    const nodes = [{ name: 'all', time: 0, insns: 0, calls: 0, selfTime: 0, selfInsns: 0, children: [], parent: null }];

    for (let i = 0; i < tree.parent.length; i++) {
        const parent = nodes[tree.parent[i]];
        const node = { name: names[tree.name[i]], selfTime: tree.time[i], selfInsns: tree.insns[i],
            time: tree.time[i], insns: tree.insns[i], calls: tree.calls[i], children: [], parent };

        nodes.push(node);
        parent.children.push(node);
    }
    for (const node of nodes.slice(1).reverse()) {
        node.parent.time += node.time;
        node.parent.insns += node.insns;
    }
    for (const node of nodes)
        node.children.sort((a, b) => b.insns - a.insns);
    return nodes;
}

// Lines of sources by the name of the function that they are of; a function may have several files.
function sourcesOf(list) {
    const sources = new Map();

    for (const { function: name, file, insns, lines } of list) {
        sources.set(name, sources.get(name) ?? []);
        sources.get(name).push({ file: plain(file), insns, lines: lines.map(([line, ran, text]) => ({ line, ran, text })) });
    }
    for (const files of sources.values())
        files.sort((a, b) => b.insns - a.insns);
    return sources;
}

export function load() {
    const data = JSON.parse(document.getElementById('data').textContent);
    const names = data.names.map(plain);

    return {
        unit: data.unit,
        length: Math.max(data.length, 1),
        cutOff: data.cut_off,
        tooDeep: data.too_deep,
        least: data.tree.least,
        names,
        report: data.report,
        latencies: data.latencies,
        sources: sourcesOf(data.sources),
        tracks: tracksOf(data.tracks, names),
        nodes: treeOf(data.tree, names),
        lines: document.getElementById('chunks').textContent.split('\n'),
    };
}

// SPDX-License-Identifier: BSD-3-Clause
//
// Light and dark: the style sheet has the colours, and charts take them from there.

const key = 'vpt-theme';
const listeners = [];

// A page from disk may have no storage.
function stored() {
    try {
        return localStorage.getItem(key);
    } catch {
        return null;
    }
}

function store(theme) {
    try {
        localStorage.setItem(key, theme);
    } catch {
        // It is forgotten with the page.
    }
}

export const isDark = () => document.documentElement.dataset.theme === 'dark';
export const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const onTheme = listener => listeners.push(listener);

function show(theme) {
    document.documentElement.dataset.theme = theme;
    document.getElementById('theme').textContent = theme === 'dark' ? '☀ Light' : '☾ Dark';
    for (const listener of listeners)
        listener();
}

export function toggleTheme() {
    const theme = isDark() ? 'light' : 'dark';

    store(theme);
    show(theme);
}

export function beginTheme() {
    const query = matchMedia('(prefers-color-scheme: dark)');

    show(stored() ?? (query.matches ? 'dark' : 'light'));
    query.addEventListener('change', () => stored() ?? show(query.matches ? 'dark' : 'light'));
    document.getElementById('theme').addEventListener('click', toggleTheme);
}

// The same name has the same colour everywhere.
const hues = new Map();

export function colourOf(name, isFaint) {
    let hash = hues.get(name);

    if (hash === undefined) {
        hash = 2166136261;
        for (let i = 0; i < name.length; i++)
            hash = Math.imul(hash ^ name.charCodeAt(i), 16777619) >>> 0;
        hues.set(name, hash);
    }
    const hue = [205, 215, 190, 170, 150, 130, 95, 45, 32, 20, 8, 345, 325, 285, 262, 235][hash % 16];
    const lightness = (isDark() ? 34 : 76) + (hash >>> 8) % 3 * 4;

    return `hsla(${hue}, ${isDark() ? 38 : 52}%, ${lightness}%, ${isFaint ? 0.25 : 1})`;
}

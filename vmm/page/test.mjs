// SPDX-License-Identifier: BSD-3-Clause
//
// test.mjs MODULES CHROMIUM PICTURES PAGE...: opens pages from disk in a browser without a network, and
// uses them. A line for each check, PASS: or FAIL:; pictures go into the folder PICTURES.
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, executablePath, pictures, ...pages] = process.argv.slice(2);
const { chromium } = createRequire(join(modules, 'none.js'))('playwright-core');
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });

const readyMax = 3000, bytesMax = 20 << 20;

function check(what, is, more = '') {
    console.log(`${is ? 'PASS' : 'FAIL'}: ${what}${more && ` (${more})`}`);
}

async function boxes(tab) {
    await tab.waitForTimeout(300);
    await tab.waitForFunction(() => document.body.dataset.drawn === document.body.dataset.turn);
    return Number(await tab.evaluate(() => document.body.dataset.boxes));
}

async function picture(tab, name, what) {
    await tab.waitForTimeout(200);
    await tab.screenshot({ path: join(pictures, `${name}-${what}.png`) });
}

async function testPage(path) {
    const name = basename(path, '.html'), said = [], asked = [];
    const context = await browser.newContext({ offline: true, colorScheme: 'light', viewport: { width: 1400, height: 860 } });
    const tab = await context.newPage();
    const is = (what, right, more) => check(`${name}: ${what}`, right, more);
    const zoomed = () => tab.evaluate(() => document.body.dataset.window);

    tab.on('console', message => said.push(message.text()));
    tab.on('pageerror', error => said.push(String(error)));
    tab.on('dialog', dialog => said.push(`dialog ${dialog.message()}`) && dialog.dismiss());
    tab.on('request', request => asked.push(request.url()));
    await tab.goto(pathToFileURL(resolve(path)).href);
    await tab.waitForSelector('body[data-ready]', { timeout: 20000 });
    const ready = Number(await tab.evaluate(() => document.body.dataset.ready));
    is('is ready in 3 s', ready < readyMax, `${ready} ms`);
    is('has less than 20 MB', statSync(path).size < bytesMax, `${statSync(path).size} bytes`);
    await tab.waitForSelector('.view:not([hidden]) .tabulator-row');
    await picture(tab, name, 'overview');

    await tab.keyboard.press('2');
    await tab.waitForSelector('body[data-boxes]');
    is('the time line has boxes', await boxes(tab) > 0);
    is('and tracks', await tab.locator('.label').count() > 0);
    await picture(tab, name, 'timeline');
    const all = await zoomed();
    for (let i = 0; i < 6; i++)
        await tab.keyboard.press('w');
    await boxes(tab);
    const [from, to] = (await zoomed()).split(' ').map(Number), [, whole] = all.split(' ').map(Number);
    is('keys zoom', Math.abs((to - from) / whole - 1 / 64) < 0.01 / 64 || to - from <= 1.01, `${from} to ${to} of ${whole}`);
    await tab.keyboard.press('d');
    await boxes(tab);
    is('and move', Number((await zoomed()).split(' ')[0]) > from);
    await picture(tab, name, 'timeline-near');
    const canvas = await tab.locator('.canvas').first().boundingBox();
    const wide = (await zoomed()).split(' ').map(Number);
    await tab.mouse.move(canvas.x + canvas.width / 2, canvas.y + 100);
    await tab.keyboard.down('Control');
    await tab.mouse.wheel(0, 300);
    await tab.keyboard.up('Control');
    await boxes(tab);
    const wider = (await zoomed()).split(' ').map(Number);
    is('Ctrl and the wheel zoom', wider[1] - wider[0] !== wide[1] - wide[0]);
    await tab.keyboard.press('0');

    await tab.keyboard.press('3');
    await tab.waitForTimeout(300);
    const before = await tab.locator('.view:not([hidden]) .detail').textContent();
    await tab.keyboard.press('ArrowDown');
    is('arrows walk in the flame graph', await tab.locator('.view:not([hidden]) .detail').textContent() !== before);
    await picture(tab, name, 'flame');
    await tab.keyboard.press('4');
    await tab.waitForSelector('.view:not([hidden]) .tabulator-row');
    await picture(tab, name, 'calls');

    await tab.keyboard.press('5');
    await tab.waitForSelector('.view:not([hidden]) .tabulator-row');
    const function_ = await tab.locator('.view:not([hidden]) .tabulator-row').first().locator('.tabulator-cell').first().innerText();
    await tab.keyboard.press('/');
    await tab.keyboard.type(function_);
    await tab.waitForTimeout(300);
    const rows = await tab.locator('.view:not([hidden]) .tabulator-row').allInnerTexts();
    is('search leaves what has the words', rows.length > 0 && rows.every(row => row.toLowerCase().includes(function_.toLowerCase())));
    await tab.locator('#search').fill('no such name anywhere');
    await tab.waitForTimeout(300);
    is('and nothing else', await tab.locator('.view:not([hidden]) .tabulator-row').count() === 0);
    await tab.locator('#search').fill('');
    await tab.keyboard.press('Escape');
    if (name === 'sources') {
        const title = () => tab.locator('.source h2').innerText();

        await tab.keyboard.press('ArrowDown');
        const first = await title();
        await tab.keyboard.press('ArrowDown');
        is('arrows choose a function', await title() !== first);
        await tab.locator('.tabulator-cell', { hasText: /^choose$/ }).first().click();
        is('and so does a click', await title() === 'choose' && await tab.locator('.tabulator-row.chosen').count() === 1);
        is('its lines are shown', await tab.locator('.source tr.ran').count() > 0);
        is('with their text', (await tab.locator('.source tr.ran code').allInnerTexts()).some(text => text.includes('return')));
        await picture(tab, name, 'source');
    }
    await tab.keyboard.press('6');
    await picture(tab, name, 'events');
    await tab.keyboard.press('7');
    is('licences are shown', await tab.locator('details').count() === 4);

    const ground = () => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await tab.keyboard.press('t');
    is('t makes it dark', await ground() !== light);
    await tab.keyboard.press('2');
    await boxes(tab);
    await picture(tab, name, 'timeline-dark');
    await tab.keyboard.press('3');
    await picture(tab, name, 'flame-dark');
    await tab.keyboard.press('5');
    await picture(tab, name, 'functions-dark');

    is('no name became markup', await tab.evaluate(() => !document.querySelector('[data-hostile], main img, main script, body > b') &&
        window.hostile === undefined && document.scripts.length === 3));
    is('nothing was asked of anybody', asked.every(url => url.startsWith('file:') || url.startsWith('blob:')), asked.slice(1).join(' '));
    is('the console is empty', said.length === 0, said.slice(0, 3).join(' | '));
    await context.close();
}

for (const page of pages)
    await testPage(page).catch(error => check(basename(page), false, String(error).split('\n')[0]));
await browser.close();

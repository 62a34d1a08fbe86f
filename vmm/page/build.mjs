// SPDX-License-Identifier: BSD-3-Clause
//
// build.mjs MODULES PAGE: one file of index.html, style.css, main.js and the libraries below MODULES, with
// a content security policy that allows this script and this style and nothing else.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [modules, page] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const esbuild = createRequire(join(modules, 'none.js'))('esbuild');

// The licences of what ends up in the page, to be shown in it.
const bundled = ['echarts', 'zrender', 'tslib', 'tabulator-tables'];
const licences = bundled.map(name => {
    const about = JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8'));
    const text = ['LICENSE', 'LICENSE.txt', 'LICENSE.md'].flatMap(file => {
        try {
            return [readFileSync(join(modules, name, file), 'utf8')];
        } catch {
            return [];
        }
    });
    const notice = name === 'echarts' ? readFileSync(join(modules, name, 'NOTICE'), 'utf8') : '';

    if (!text.length)
        throw new Error(`${name} has no licence`);
    return { name, version: about.version, licence: about.license, text: text[0] + notice };
});

const result = await esbuild.build({
    entryPoints: [join(here, 'main.js')],
    nodePaths: [modules],
    bundle: true,
    minify: true,
    write: false,
    outdir: 'out',
    charset: 'utf8',
    legalComments: 'none',
    target: ['chrome103', 'firefox113', 'safari16.4'],
    define: { 'process.env.NODE_ENV': '"production"', LICENCES: JSON.stringify(licences) },
    logLevel: 'warning',
    metafile: true,
});

const unlisted = Object.keys(result.metafile.inputs)
    .map(path => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1])
    .find(name => name && !bundled.includes(name));
if (unlisted)
    throw new Error(`${unlisted} is bundled without its licence`);

const output = extension => result.outputFiles.find(file => file.path.endsWith(extension)).text;
// What stands between the tags is what is hashed. Nothing in it may end them.
const script = output('.js').trim().replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
const style = output('.css').trim();
const hash = text => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;
const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
    "base-uri 'none'; form-action 'none'";
const parts = { policy, style, script };

writeFileSync(page, readFileSync(join(here, 'index.html'), 'utf8')
    .replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]));

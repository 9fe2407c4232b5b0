/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks_svg.c - stacks as one SVG picture: callers above, callees below, width is time,
 * colour is the kind of frame. A few lines of script zoom and search; without them it is
 * still a picture.
 */
#include "analyse/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmt.h"
#include "base/utf8.h"

#define WIDTH 1200.0
#define MARGIN 16.0
#define INNER (WIDTH - 2 * MARGIN)
#define TOP 92.0 /* above the frames */
#define ROW 19.0 /* from one row of frames to the next */
#define CHAR 7.0 /* width of a character at the frames' size */
#define BOTTOM 40.0
#define NAME_MAX 1000 /* bytes of a name in a tooltip */

static const char style[] =
	"svg{background:#fff;font-family:ui-sans-serif,system-ui,'DejaVu Sans',sans-serif}"
	"text{fill:#1c2733;font-size:12px;pointer-events:none}"
	".t{font-size:17px;font-weight:600}.s,.m{fill:#5b6875;font-size:12px}"
	".f{cursor:pointer}.f rect{stroke:#fff;stroke-width:1}"
	".f:hover rect{stroke:#1c2733}.f text{font-size:11.5px}"
	".b{cursor:pointer;fill:#0b62c4;pointer-events:auto}.b:hover{text-decoration:underline}"
	".a rect{opacity:.45}.hit rect{fill:#ffe100!important}"
	".k0 rect{fill:#dfe4ea}.k1 rect{fill:#cfd8e3}.k2 rect{fill:#a9cdf0}.k3 rect{fill:#e3dcf5}"
	".k4 rect{fill:#ffd591}.k5 rect{fill:#e6b8d8}.k6 rect{fill:#a8dca0}.k7 rect{fill:#f7a8a0}"
	".k8 rect{fill:#9fdcd6}.k9 rect{fill:#e5e5dc}"
	"@media(prefers-color-scheme:dark){svg{background:#14181d}.t,.s,.m{fill:#c6d0da}"
	".b{fill:#6cb2ff}.l{fill:#c6d0da}.f rect{stroke:#14181d}.f:hover rect{stroke:#fff}}";

/* Frames keep their place and width as parts of the whole in data-x and data-w. */
static const char script[] =
	"(function(){var W=1168,M=16,C=7,S=document.documentElement,"
	"F=[].slice.call(S.querySelectorAll('.f')),I=document.getElementById('i'),"
	"Z=document.getElementById('z'),Q=document.getElementById('q'),x0=0,w0=1;"
	"function n(g,a){return +g.getAttribute('data-'+a)}"
	"function fit(g,w){var t=g.querySelector('text'),s=g.getAttribute('data-n'),"
	"k=Math.floor((w-8)/C);t.textContent=k<3?'':s.length<=k?s:s.slice(0,k-1)+'\\u2026'}"
	"function draw(){F.forEach(function(g){var x=n(g,'x'),w=n(g,'w'),"
	"up=x<=x0+1e-9&&x+w>=x0+w0-1e-9,a=up?0:(x-x0)/w0,b=up?1:w/w0,r=g.querySelector('rect');"
	"if(!up&&(x<x0-1e-9||x+w>x0+w0+1e-9)){g.style.display='none';return}"
	"g.style.display='';g.classList.toggle('a',up&&w>w0+1e-9);"
	"r.setAttribute('x',M+a*W);r.setAttribute('width',Math.max(b*W,.3));"
	"g.querySelector('text').setAttribute('x',M+a*W+4);fit(g,b*W)});"
	"Z.style.display=w0<1?'':'none'}"
	"F.forEach(function(g){g.addEventListener('click',function(){x0=n(g,'x');w0=n(g,'w');draw()"
	"});"
	"g.addEventListener('mouseover',function(){I.textContent=g.querySelector('title')."
	"textContent"
	".replace(/\\n/g,'  \\u00b7  ').slice(0,170)})});"
	"Z.addEventListener('click',function(){x0=0;w0=1;draw()});"
	"function find(){var s=prompt('Search frames (text or regular expression)','');"
	"if(s===null)return;var e=null,c=0,seen=[];try{e=s?new RegExp(s,'i'):null}catch(x){"
	"e=new RegExp(s.replace(/[.*+?^${}()|[\\]\\\\]/g,'\\\\$&'),'i')}"
	"F.forEach(function(g){var "
	"h=!!e&&e.test(g.getAttribute('data-n'));g.classList.toggle('hit',h);"
	"if(h)seen.push([n(g,'x'),n(g,'x')+n(g,'w')])});"
	"seen.sort(function(a,b){return a[0]-b[0]});var end=0;seen.forEach(function(p){"
	"if(p[1]>end){c+=p[1]-Math.max(p[0],end);end=p[1]}});"
	"I.textContent=s?seen.length+' frames match, '+(100*c).toFixed(2)+' % of the time':''}"
	"Q.addEventListener('click',find);"
	"document.addEventListener('keydown',function(e){if((e.ctrlKey||e.metaKey)&&e.key==='f'){"
	"e.preventDefault();find()}if(e.key==='Escape'){x0=0;w0=1;draw()}})})();";

struct drawing {
	const struct stacks_result *s;
	struct buf *out;
	double least, whole;
	int deepest;
	size_t hidden;
	bool kinds[STACKS_KINDS];
};

static void put_xml(struct buf *out, const char *text, size_t len)
{
	size_t step;

	for (size_t i = 0; i < len; i += step) {
		unsigned char c = (unsigned char)text[i];

		step = utf8_valid((const unsigned char *)text + i, len - i);
		if (!step || c < ' ') {
			buf_puts(out, c < ' ' ? " " : "\xef\xbf\xbd");
			step = 1;
		} else if (c == '&') {
			buf_puts(out, "&amp;");
		} else if (c == '<') {
			buf_puts(out, "&lt;");
		} else if (c == '>') {
			buf_puts(out, "&gt;");
		} else if (c == '"') {
			buf_puts(out, "&quot;");
		} else {
			buf_append(out, text + i, step);
		}
	}
}

/* At most max bytes, whole characters. */
static size_t cut(const struct stacks_frame *f, size_t max)
{
	size_t n = f->len;

	if (n <= max)
		return n;
	for (n = max; n && ((unsigned char)f->text[n] & 0xc0) == 0x80; n--)
		;
	return n;
}

/* The end of a path says more than its beginning: "a/b/c/file.py(12): f" is "file.py(12): f". */
static struct stacks_frame label_of(const struct stacks_frame *f)
{
	struct stacks_frame l = *f;
	const char *stop = memchr(f->text, '(', f->len);

	for (const char *p = stop; p && p > f->text; p--) {
		if (p[-1] == '/' && stop - f->text > 3 && !memcmp(stop - 3, ".py", 3)) {
			l.len -= (uint32_t)(p - f->text);
			l.text = p;
			break;
		}
	}
	return l;
}

static void put_frame(struct drawing *d, const struct stacks_node *n, double x, double w, int depth)
{
	const struct stacks_frame *f = &d->s->frames[n->frame];
	struct stacks_frame l = label_of(f);
	double y = TOP + depth * ROW;
	int room = (int)((w * INNER - 8) / CHAR);
	char total[FMT_MAX], self[FMT_MAX];
	size_t shown;

	buf_printf(d->out, "<g class=\"f k%d\" data-x=\"%.7g\" data-w=\"%.7g\" data-n=\"", n->kind,
		   x, w);
	put_xml(d->out, l.text, cut(&l, NAME_MAX));
	buf_puts(d->out, "\"><title>");
	put_xml(d->out, f->text, cut(f, NAME_MAX));
	buf_printf(d->out, "\n%s, %.2f %%", fmt_seconds(total, (double)n->total / 1e9), 100 * w);
	if (n->self != n->total)
		buf_printf(d->out, "\nitself %s", fmt_seconds(self, (double)n->self / 1e9));
	if (n->count)
		buf_printf(d->out, "\n%llu %s", (unsigned long long)n->count,
			   n->count == 1 ? "time" : "times");
	buf_printf(d->out,
		   "</title><rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" rx=\"2\"/>"
		   "<text x=\"%.2f\" y=\"%.1f\">",
		   MARGIN + x * INNER, y, w * INNER < 0.3 ? 0.3 : w * INNER, ROW - 1,
		   MARGIN + x * INNER + 4, y + 13);
	if (room >= 3) {
		shown = cut(&l, l.len <= (size_t)room ? l.len : (size_t)room - 1);
		put_xml(d->out, l.text, shown);
		if (shown < l.len)
			buf_puts(d->out, "\xe2\x80\xa6");
	}
	buf_puts(d->out, "</text></g>\n");
}

static size_t count_below(const struct stacks_result *s, int32_t node)
{
	size_t n = 0;
	int32_t k = node;

	for (;;) {
		n++;
		if (s->nodes[k].child >= 0) {
			k = s->nodes[k].child;
			continue;
		}
		while (k != node && s->nodes[k].next < 0)
			k = s->nodes[k].parent;
		if (k == node)
			return n;
		k = s->nodes[k].next;
	}
}

/* Frames from the top, siblings side by side; with out NULL only measures. */
static void put_frames(struct drawing *d, bool draw)
{
	const struct stacks_node *nodes = d->s->nodes;
	int32_t k = 0;
	int depth = 0;
	int64_t at = 0; /* ns where node k begins */

	while (k >= 0) {
		double w = (double)nodes[k].total / d->whole;
		bool wide = w >= d->least;

		if (wide && draw)
			put_frame(d, &nodes[k], (double)at / d->whole, w, depth);
		if (wide) {
			d->deepest = depth > d->deepest ? depth : d->deepest;
			d->kinds[nodes[k].kind] = true;
		} else if (!draw) {
			d->hidden += count_below(d->s, k);
		}
		if (wide && nodes[k].child >= 0) {
			k = nodes[k].child;
			depth++;
			continue;
		}
		at += nodes[k].total;
		while (k > 0 && nodes[k].next < 0) {
			k = nodes[k].parent;
			depth--;
			at += nodes[k].self;
		}
		if (k <= 0)
			break;
		k = nodes[k].next;
	}
}

static void put_legend(struct drawing *d, double y)
{
	double x = MARGIN;

	for (int k = STACKS_THREAD; k < STACKS_KINDS; k++) {
		if (!d->kinds[k])
			continue;
		buf_printf(
			d->out,
			"<g class=\"k%d\"><rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" "
			"rx=\"2\"/></g><text class=\"l\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
			k, x, y - 10, x + 17, y, stacks_kind_names[k]);
		x += 17 + 7.2 * (double)strlen(stacks_kind_names[k]) + 18;
	}
}

static void put_head(struct drawing *d, const struct stacks_svg *o, double height)
{
	char whole[FMT_MAX];

	buf_printf(d->out,
		   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
		   "xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
		   "height=\"%.0f\">\n<style>%s</style>\n",
		   WIDTH, height, WIDTH, height, style);
	buf_printf(d->out, "<text class=\"t\" x=\"%.0f\" y=\"28\">", MARGIN);
	put_xml(d->out, o->title, strlen(o->title));
	buf_printf(d->out, "</text>\n<text class=\"s\" x=\"%.0f\" y=\"48\">%s of %s time", MARGIN,
		   fmt_seconds(whole, d->whole / 1e9), d->s->of == STACKS_HOST ? "host" : "device");
	if (o->subtitle) {
		buf_puts(d->out, ", ");
		put_xml(d->out, o->subtitle, strlen(o->subtitle));
	}
	buf_puts(d->out, "</text>\n");
	put_legend(d, 72);
	buf_printf(
		d->out,
		"<text id=\"q\" class=\"b\" x=\"%.0f\" y=\"28\" text-anchor=\"end\">Search</text>"
		"<text id=\"z\" class=\"b\" x=\"%.0f\" y=\"28\" text-anchor=\"end\" "
		"style=\"display:none\">Whole picture</text>\n",
		WIDTH - MARGIN, WIDTH - MARGIN - 64);
}

size_t stacks_draw(const struct stacks_result *s, const struct stacks_svg *o, struct buf *out)
{
	struct drawing d = {.s = s, .out = out, .least = o->least > 0 ? o->least : 0.0005};
	double height;

	d.whole = s->n ? (double)s->nodes[0].total : 0;
	if (d.whole > 0)
		put_frames(&d, false);
	height = TOP + (d.deepest + 1) * ROW + BOTTOM;
	put_head(&d, o, height);
	if (d.whole > 0)
		put_frames(&d, true);
	else
		buf_printf(out, "<text x=\"%.0f\" y=\"%.0f\">No time to show.</text>\n", MARGIN,
			   TOP + 14);
	buf_printf(out, "<text id=\"i\" class=\"m\" x=\"%.0f\" y=\"%.0f\">", MARGIN, height - 14);
	if (d.hidden)
		buf_printf(out, "%zu frames narrower than %.3g %% are not drawn. ", d.hidden,
			   100 * d.least);
	buf_puts(out, "Click a frame to zoom, Escape for the whole; Ctrl-F searches.</text>\n");
	buf_printf(out, "<script><![CDATA[%s]]></script>\n</svg>\n", script);
	return d.hidden;
}

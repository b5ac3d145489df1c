package report

// style is that of the page. It names nothing from elsewhere.
const style = `
:root{color-scheme:light dark;--back:#fff;--card:#f6f7f9;--ink:#1b1f24;--soft:#57606a;--line:#d8dee4;--bar:#2f6fbd;--rest:#8c959f;--good:#2d7d46;--bad:#b5472f}
@media (prefers-color-scheme:dark){:root{--back:#14171c;--card:#1d2128;--ink:#e6e9ee;--soft:#a3adba;--line:#39414c;--bar:#6ba5ea;--rest:#7d8794;--good:#5fbd7d;--bad:#ee8a70}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:26px;margin:0}
h2{font-size:20px;margin:36px 0 12px;padding-bottom:4px;border-bottom:1px solid var(--line)}
h3{font-size:15px;margin:24px 0 6px}
header p,.note{color:var(--soft);margin:4px 0 12px;overflow-wrap:anywhere}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0 0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 16px;min-width:120px}
.tiles dt{color:var(--soft);font-size:13px}
.tiles dd{margin:0;font-size:24px;font-weight:600;font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr));gap:14px}
figure{margin:0;padding:12px 14px;background:var(--card);border:1px solid var(--line);border-radius:8px;min-width:0;break-inside:avoid}
figcaption{font-weight:600;margin-bottom:8px;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--ink);font-size:12px}
svg text.name{font:11px ui-monospace,monospace}
svg .value{fill:var(--soft);font-variant-numeric:tabular-nums}
.bar{fill:var(--bar)}.rest{fill:var(--rest)}.good{fill:var(--good)}.bad{fill:var(--bad)}
.charts+.note{margin-top:12px}
.table{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px}
th,td{text-align:left;vertical-align:top;padding:4px 10px 4px 0;border-bottom:1px solid var(--line);overflow-wrap:break-word}
th{color:var(--soft);font-weight:600;white-space:nowrap}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
@media print{:root{color-scheme:light;--back:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--bar:#2f6fbd;--rest:#8c959f;--good:#2d7d46;--bad:#b5472f}
body{font-size:11px;print-color-adjust:exact;-webkit-print-color-adjust:exact}main{max-width:none;padding:0}.charts{grid-template-columns:1fr 1fr}.table{overflow:visible}h2,h3{break-after:avoid}tr{break-inside:avoid}thead{display:table-header-group}th{white-space:normal}td{overflow-wrap:anywhere}}
`

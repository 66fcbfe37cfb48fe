//! Tests the page in headless Chromium. Without Chromium, the tests are skipped with a message.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn installed() -> bool {
    let there = Command::new("chromium").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: chromium is not installed");
    }
    there
}

fn open(folder: &Path, file: &str, arguments: &[&str]) -> Output {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", folder.join(file).display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Returns the document and the console messages. A request from the page would also cause a message, because
/// the page's policy forbids requests.
fn dom(folder: &Path, file: &str, arguments: &[&str]) -> (String, Vec<String>) {
    let output = open(folder, file, &[&["--dump-dom"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let console = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8(output.stdout).unwrap(), console)
}

fn found(folder: &Path, file: &str) -> Option<String> {
    // A file may access another file in its frame only with these options.
    let (document, _) = dom(folder, file, &["--allow-file-access-from-files", "--disable-web-security"]);
    let (_, after) = document.split_once("<pre id=\"found\">")?;
    Some(after.split_once("</pre>")?.0.to_owned())
}

#[test]
fn the_script_runs_and_the_console_stays_empty() {
    if !installed() {
        return;
    }
    let folder = folder("console");
    let pages = [
        ("pictures", crate::made_up::pictures()),
        ("cubes", crate::made_up::cubes()),
        ("hostile", crate::made_up::hostile()),
    ];
    for (name, report) in pages {
        fs::write(folder.join("page.html"), shardpack_report::page(&report)).unwrap();
        let (document, console) = dom(&folder, "page.html", &[]);
        assert!(console.is_empty(), "{name}: {console:?}");
        assert!(document.contains("Copy</button>") && document.contains("Save it</button>"), "{name}");
        assert!(!document.contains("<title>gone</title>"), "{name}: text of the data ran");
    }
}

#[test]
fn text_that_escaped_could_not_run() {
    if !installed() {
        return;
    }
    let folder = folder("policy");
    let page = shardpack_report::page(&crate::made_up::pictures());
    let broken = page.replace("</main>", "<script>document.title='gone'</script><img src=\"x.png\"></main>");
    assert_ne!(page, broken);
    fs::write(folder.join("page.html"), broken).unwrap();
    let (document, console) = dom(&folder, "page.html", &[]);
    assert!(!document.contains("<title>gone</title>"));
    assert!(console.len() >= 2 && console.iter().all(|line| line.contains("Content Security Policy")), "{console:?}");
}

/// Loads the report in an iframe with scripts disabled, and lists the visible sections.
const WITHOUT_SCRIPT: &str = r#"<!DOCTYPE html>
<iframe id="f" src="page.html" sandbox="allow-same-origin" style="width:1100px;height:2000px;border:0"></iframe>
<script>
document.getElementById("f").onload = () => {
  const page = document.getElementById("f").contentDocument;
  const seen = [...page.querySelectorAll("section")].filter((e) => e.getBoundingClientRect().height > 50);
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = seen.map((e) => e.id).join(" ") + ", buttons " + page.querySelectorAll("button").length;
  document.body.append(result);
};
</script>"#;

#[test]
fn everything_is_there_without_the_script() {
    if !installed() {
        return;
    }
    let folder = folder("no-script");
    fs::write(folder.join("page.html"), shardpack_report::page(&crate::made_up::pictures())).unwrap();
    fs::write(folder.join("frame.html"), WITHOUT_SCRIPT).unwrap();
    let expected = "verdict curve table distributions gallery metric provenance, buttons 0";
    assert_eq!(found(&folder, "frame.html").as_deref(), Some(expected));
}

/// Loads the report in an iframe of a given width, operates the controls of the page, and records the results.
const USE: &str = r##"<!DOCTYPE html><iframe id="f" src="page.html" style="width:390px;height:2000px;border:0"></iframe>
<script>
document.getElementById("f").onload = () => {
  const page = document.getElementById("f").contentDocument, view = document.getElementById("f").contentWindow;
  const all = (query) => [...page.querySelectorAll(query)];
  const found = [];
  found.push("overflow " + (page.documentElement.scrollWidth > 390));
  const shown = (query) => all(query).filter((e) => view.getComputedStyle(e).display !== "none").length;
  found.push("wide " + shown("svg.wide") + " narrow " + (shown("svg.narrow") === all("svg.narrow").length));
  const order = () => all("table.sortable")[0].tBodies[0].rows[0].cells[1].dataset.value;
  const sizes = [...all("table.sortable")[0].tBodies[0].rows].map((r) => Number(r.cells[1].dataset.value));
  const button = all("table.sortable")[0].querySelectorAll("thead tr:last-child button")[1];
  button.click();
  found.push("ascending " + (Number(order()) === Math.min(...sizes)));
  button.click();
  found.push("descending " + (Number(order()) === Math.max(...sizes)));
  const slider = page.querySelector("figure.pair input");
  slider.value = 30;
  slider.dispatchEvent(new view.Event("input"));
  found.push("slider " + page.querySelector("figure.pair .over").style.clipPath);
  const mark = page.querySelector("svg.narrow .point");
  mark.dispatchEvent(new view.PointerEvent("pointermove", { bubbles: true, clientX: 50, clientY: 50 }));
  const tip = page.querySelector(".tip");
  found.push("tip " + (!tip.hidden && tip.textContent.startsWith("#")));
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = found.join("\n");
  document.body.append(result);
};
</script>"##;

#[test]
fn sorting_slider_and_hints_work_on_a_narrow_page() {
    if !installed() {
        return;
    }
    let folder = folder("use");
    fs::write(folder.join("page.html"), shardpack_report::page(&crate::made_up::pictures())).unwrap();
    fs::write(folder.join("use.html"), USE).unwrap();
    let expected =
        "overflow false\nwide 0 narrow true\nascending true\ndescending true\nslider inset(0px 0px 0px 30%)\ntip true";
    assert_eq!(found(&folder, "use.html").as_deref(), Some(expected));
}

#[test]
fn it_prints() {
    if !installed() {
        return;
    }
    let folder = folder("print");
    fs::write(folder.join("page.html"), shardpack_report::page(&crate::made_up::cubes())).unwrap();
    let file = folder.join("page.pdf");
    open(&folder, "page.html", &["--no-pdf-header-footer", &format!("--print-to-pdf={}", file.display())]);
    let pdf = fs::read(&file).unwrap();
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 20_000, "{} bytes", pdf.len());
}

use super::*;
use crate::cancel::Polls;
use crate::columns::{ColumnValues, Texts};
use crate::testing::said;

const KEYS: &[&str] = &["a/1.jpg", "a/2.jpg", "b/3.jpg"];

fn read_text(text: impl AsRef<[u8]>) -> Result<Labels> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("labels");
    std::fs::write(&file, text).unwrap();
    read(&file, &SourceOptions::default(), KEYS, &HashSet::from(["skipped.gif"]), Cancel::default())
}

fn error(text: impl AsRef<[u8]>) -> String {
    let error = said(&read_text(text).unwrap_err());
    error.split_once("labels`").unwrap().1.to_owned()
}

fn values(labels: &Labels, name: &str) -> ColumnValues {
    labels.columns.iter().find(|column| column.name == name).unwrap().values.clone()
}

fn texts(texts: &[&str]) -> ColumnValues {
    ColumnValues::Text(texts.iter().copied().collect::<Texts>())
}

#[test]
fn csv_columns_are_typed_and_put_in_the_order_of_the_samples() {
    let labels = read_text(
        "\u{feff}id, key ,score,ok,site,code,note\r\n\
         3,b/3.jpg,0.5,true,x,007,\r\n\
         -1,a/1.jpg,2,False,\"y, z\",008,n\r\n\
         2,a/2.jpg,nan,TRUE,x,9,\r\n",
    )
    .unwrap();
    assert_eq!(values(&labels, "id"), ColumnValues::Int(vec![-1, 2, 3]));
    assert_eq!(values(&labels, "ok"), ColumnValues::Bool(vec![false, true, true]));
    assert_eq!(values(&labels, "site"), texts(&["y, z", "x", "x"]));
    assert_eq!(values(&labels, "code"), texts(&["008", "9", "007"]), "leading zeros are part of a code");
    assert_eq!(values(&labels, "note"), texts(&["n", "", ""]));
    let ColumnValues::Float(scores) = values(&labels, "score") else { panic!() };
    assert!(scores[0] == 2.0 && scores[1].is_nan() && scores[2] == 0.5);
    assert_eq!(labels.columns.len(), 6);
    assert_eq!(labels.classes, None);
}

#[test]
fn a_list_of_json_objects_equals_json_lines() {
    let objects = [
        r#"{"file": "b/3.jpg", "n": 3, "captions": ["one",  "two"]}"#,
        r#"{"n": -1, "captions": [], "file": "a/1.jpg"}"#,
        r#"{"file": "a/2.jpg", "n": 2, "captions": ["{", "]"]}"#,
    ];
    let lines = read_text(objects.join("\n")).unwrap();
    assert_eq!(read_text(format!("[{}]", objects.join(", "))).unwrap(), lines);
    assert_eq!(read_text(format!("\u{feff}\n[\n  {}\n]\n", objects.join(",\n  "))).unwrap(), lines);
    let indented = read_text(format!("[{}]", objects.join(",").replace(", ", ",\n\n  "))).unwrap();
    let one_line = [r"[]", r#"["{","]"]"#, r#"["one","two"]"#];
    assert_eq!(values(&indented, "captions"), ColumnValues::Json(one_line.into_iter().collect()));
    assert_eq!(values(&indented, "n"), values(&lines, "n"));

    // A message names the line in which the object starts.
    let unknown = format!("[\n{},\n\n{}]", objects[0], objects[1].replace("a/1", "a/9"));
    assert!(error(&unknown).starts_with(", line 4: no sample has the key `a/9.jpg`"), "{}", error(&unknown));
    assert!(error("[]").contains("3 of 3 samples have no row in the table"), "{}", error("[]"));
    let cut = error(format!("[{},\n{}", objects[0], objects[1]));
    assert!(cut.starts_with(", line 2: not a list of JSON objects: "), "{cut}");
    let number = error(format!("[{},\n7]", objects[0]));
    assert!(number.starts_with(", line 2: invalid type: integer `7`, expected a JSON object"), "{number}");
}

#[test]
fn json_lines_say_the_same() {
    let labels = read_text(
        "{\"file\": \"b/3.jpg\", \"id\": 3, \"score\": 0.5, \"ok\": true, \"code\": \"7\"}\n\n\
         {\"id\": -1, \"score\": 2, \"ok\": false, \"code\": \"8\", \"file\": \"a/1.jpg\"}\n\
         {\"file\": \"a/2.jpg\", \"id\": 2, \"score\": 1, \"ok\": true, \"code\": \"9\"}",
    )
    .unwrap();
    assert_eq!(values(&labels, "id"), ColumnValues::Int(vec![-1, 2, 3]));
    assert_eq!(values(&labels, "score"), ColumnValues::Float(vec![2.0, 1.0, 0.5]));
    assert_eq!(values(&labels, "ok"), ColumnValues::Bool(vec![false, true, true]));
    assert_eq!(values(&labels, "code"), texts(&["8", "9", "7"]), "strings stay strings");
    assert_eq!(labels.columns.len(), 4);
}

#[test]
fn text_labels_become_classes() {
    let classes = |header: &str| {
        let labels = read_text(format!("{header}\nb/3.jpg,dog,1\na/1.jpg,cat,2\na/2.jpg,dog,3\n")).unwrap();
        let columns: Vec<_> = labels.columns.iter().map(|column| column.name.clone()).collect();
        (labels.label_column.is_some(), labels.classes, columns)
    };
    let animals = Some(Classes { names: vec!["cat".into(), "dog".into()], labels: vec![0, 1, 1] });
    assert_eq!(classes("key,label,n"), (true, animals.clone(), vec!["n".to_owned()]));
    assert_eq!(classes("key,class,n"), (true, animals, vec!["n".to_owned()]));
    assert_eq!(classes("key,class,label"), (true, None, vec!["class".to_owned(), "label".to_owned()]));
    assert_eq!(classes("key,animal,n"), (false, None, vec!["animal".to_owned(), "n".to_owned()]));
}

#[test]
fn key_column_has_several_names() {
    for name in KEY_NAMES {
        let labels = read_text(format!("n,{name}\n1,a/1.jpg\n2,a/2.jpg\n3,b/3.jpg\n")).unwrap();
        assert_eq!(values(&labels, "n"), ColumnValues::Int(vec![1, 2, 3]));
    }
    let labels = read_text("path,key\nx,a/1.jpg\ny,a/2.jpg\nz,b/3.jpg\n").unwrap();
    assert_eq!(values(&labels, "path"), texts(&["x", "y", "z"]));
}

#[test]
fn rows_of_skipped_samples_are_ignored() {
    let labels = read_text("key,n\na/1.jpg,1\nskipped.gif,text\na/2.jpg,2\nb/3.jpg,3\n").unwrap();
    assert_eq!(values(&labels, "n"), ColumnValues::Int(vec![1, 2, 3]));
}

#[test]
fn csv_errors_name_line_and_reason() {
    for (text, expected) in [
        (
            "name,n\na,1\n",
            ", line 1: the table has none of the usual key columns (`key`, `path`, `file`, `filename`, `file_name`, \
             `file_path`, `image`, `image_path`, `image_id`, `id`); its columns are `name`, `n`\n\
             hint: pass `--key-column NAME` to select the key column",
        ),
        ("key,n,n\n", ", line 1: two columns have the name `n`"),
        ("key,,n\n", ", line 1: column 2 has no name"),
        (
            "key,mask\n",
            ", line 1: the column name `mask` is reserved for a field that `pack` writes\nhint: rename the column",
        ),
        (
            "key,n\na/1.jpg,1\nA/1.jpg,2\n",
            ", line 3: no sample has the key `A/1.jpg`\n\
             hint: write keys as paths relative to the source, such as `a/1.jpg`, or pass `--key-column` to select the \
             key column",
        ),
        (
            "key,n\na/1.jpg,1\na/2.jpg,1\na/1.jpg,2\n",
            ", line 4: `a/1.jpg` already has a row on line 2\nhint: write one row for each sample; in JSON \
             Lines, several values of a sample can be a list, such as `{\"key\": \"a/1.jpg\", \"n\": [\"one\", \
             \"another\"]}`",
        ),
        (
            "key,n\na/1.jpg,1,2\n",
            ", line 2: the row has 3 cells, but the header has 2\nhint: put quotes around cells that contain commas",
        ),
        (
            "key,n\na/1.jpg\n",
            ", line 2: the row has 1 cell, but the header has 2\nhint: put quotes around cells that contain commas",
        ),
        (
            "key,n\na/2.jpg,1\n",
            ": 2 of 3 samples have no row in the table: `a/1.jpg`, `b/3.jpg`\n\
             hint: add the rows, or remove the files from the source",
        ),
        (
            "key,n\na/2.jpg,1\na/1.jpg,2\n",
            ": 1 of 3 samples has no row in the table: `b/3.jpg`\nhint: add the rows, or remove the files from the source",
        ),
        (
            "key,n\na/1.jpg,1\na/2.jpg,\nb/3.jpg,2\n",
            ", line 3: the column `n` has an empty cell, although its other values are integers\n\
             hint: fill in the cell, or write `nan` for an unknown number",
        ),
    ] {
        assert_eq!(error(text), expected, "{text:?}");
    }
    for (text, line) in [
        ("key,n\r\na/1.jpg,1\r\nx,1\r\n", 3),
        ("key,n\r\na/1.jpg,1,2\r\n", 2),
        ("key,n\r\na/1.jpg,1\r\na/2.jpg,\r\nb/3.jpg,2", 3),
        ("key,n\r\na/1.jpg,1\r\na/2.jpg,1\r\na/1.jpg,2\r\n", 4),
    ] {
        assert!(error(text).starts_with(&format!(", line {line}: ")), "{text:?}: {}", error(text));
    }
    assert_eq!(error(b"key,n\na/1.jpg,\xff\n"), ", line 2: the text is not UTF-8");
    let line = error("key,n\n\"a/1.jpg\",\"1\n2\"\nx,1\n");
    assert!(line.starts_with(", line 4: "), "lines are counted as an editor does: {line}");
}

#[test]
fn json_errors_name_line_and_reason() {
    let first = "{\"key\": \"a/1.jpg\", \"n\": 1}\n";
    for (line, expected) in [
        ("{\"key\": \"a/2.jpg\"}", "`n` is missing, but the first row has it"),
        ("{\"key\": \"a/2.jpg\", \"n\": 1, \"m\": 2}", "this row has `m`, but the first row does not"),
        ("{\"key\": \"a/2.jpg\", \"n\": 1, \"n\": 2}", "`n` occurs twice"),
        ("{\"key\": \"a/2.jpg\", \"n\": \"1\"}", "`n`: expected integers as in earlier rows, found text"),
        ("{\"key\": true, \"n\": 1}", "the key in `key` must be a string or an integer"),
        ("{\"key\": 7, \"n\": 1}", "no sample has the key `7`"),
        ("{\"key\": \"a/1.jpg\", \"n\": 1}", "`a/1.jpg` already has a row on line 1"),
        ("[1]", "invalid type: sequence, expected a JSON object"),
        (
            "{\"key\": ",
            "not valid JSON: EOF while parsing a value (column 8)\nhint: write one JSON object on each line",
        ),
        ("{'key': 1}", "not valid JSON: key must be a string (column 2)\nhint: "),
        ("{\"key\": \"a/2.jpg\", \"n\": nan}", "not valid JSON: expected ident (column 26)"),
        ("{\"key\": \"a/2.jpg\", \"n\": 1} {}", "not valid JSON: trailing characters (column 28)"),
    ] {
        let found = error(format!("{first}{line}"));
        assert!(found.starts_with(", line 2: "), "{found}");
        assert!(found.contains(expected), "{found}");
    }
    for (value, expected, hint) in [
        ("null", "expected a value, found null", "fill in the missing value, or remove the column"),
        ("18446744073709551615", "the integer does not fit into int64", "write the integers of this column as strings"),
    ] {
        let expected = format!("`n`: {expected}\nhint: {hint}");
        let row = |key: &str| format!("{{\"key\": \"{key}\", \"n\": {value}}}\n");
        assert_eq!(error(row("a/1.jpg")), format!(", line 1: {expected}"));
        assert_eq!(error(first.to_owned() + &row("a/2.jpg")), format!(", line 2: {expected}"));
        // The row of a skipped sample may have any values, and does not determine the type of a column.
        let rest = "{\"key\": \"a/2.jpg\", \"n\": 2}\n{\"key\": \"b/3.jpg\", \"n\": 3}\n";
        let labels = read_text(row("skipped.gif") + first + rest).unwrap();
        assert_eq!(values(&labels, "n"), ColumnValues::Int(vec![1, 2, 3]));
    }
    assert!(error("{\"key\": \"a/1.jpg\", \"n\": 1e999}").starts_with(", line 1: `n`: number out of range"));
    assert!(error("{\"n\": 1}").starts_with(", line 1: the table has none of the usual key columns (`key`"));
}

#[test]
fn lists_and_objects_keep_their_text() {
    let row = |key: &str, boxes: &str| format!("{{\"file_name\": \"{key}\", \"boxes\": {boxes}}}\n");
    let boxes = ["[[1, 2.50, 9007199254740993], []]", "[]", "{\"a\": [\"ä\", null, 1e400]}"];
    let text: String = KEYS.iter().zip(boxes).map(|(key, boxes)| row(key, boxes)).collect();
    let json = |texts: &[&str]| ColumnValues::Json(texts.iter().copied().collect());
    assert!(error(&text).contains("line 3: "), "a number that is too large");
    let text = text.replace("1e400", "-0.0");
    let boxes = [boxes[0], boxes[1], "{\"a\": [\"ä\", null, -0.0]}"];
    assert_eq!(values(&read_text(&text).unwrap(), "boxes"), json(&boxes));
    for (second, expected) in [
        ("1", "`boxes`: expected lists or objects as in earlier rows, found integers"),
        ("{\"a\": 1, \"a\": 2}", "not valid JSON"),
        (&"[".repeat(500), "recursion"),
    ] {
        let found = error(row(KEYS[0], "[1]") + &row(KEYS[1], second));
        assert!(found.starts_with(", line 2: "), "{found}");
        assert!(found.contains(expected) || second.starts_with("[["), "{found}");
    }
}

#[test]
fn keys_may_omit_parts_if_one_file_matches() {
    let order = |names: [&str; 3]| {
        let rows: String = names.iter().zip(1..).map(|(name, n)| format!("{name},{n}\n")).collect();
        values(&read_text(format!("id,n\n{rows}")).unwrap(), "n")
    };
    let (in_order, swapped) = (ColumnValues::Int(vec![1, 2, 3]), ColumnValues::Int(vec![2, 1, 3]));
    assert_eq!(order(["a/1", "a/2", "b/3"]), in_order);
    assert_eq!(order(["2.jpg", "1.jpg", "b/3"]), swapped);
    assert_eq!(order(["2", "a/1.jpg", "3"]), swapped);
    let found = error("caption,image\none,1\nanother,a/1.jpg\n");
    assert!(found.starts_with(", line 3: `a/1.jpg` already has a row on line 2\nhint: "), "{found}");
    let (_, line) = found.split_once("such as `").unwrap();
    assert_eq!(line, "{\"image\": \"a/1.jpg\", \"caption\": [\"one\", \"another\"]}`");
    // The row in the hint is valid JSON Lines.
    let rest = "{\"image\": \"2\", \"caption\": []}\n{\"image\": \"3\", \"caption\": []}\n";
    let labels = read_text(format!("{}\n{rest}", line.trim_end_matches('`'))).unwrap();
    let captions = ["[\"one\", \"another\"]", "[]", "[]"];
    assert_eq!(values(&labels, "caption"), ColumnValues::Json(captions.iter().copied().collect()));
    let labels = read_text("{\"id\": 3, \"n\": 3}\n{\"id\": 1, \"n\": 1}\n{\"id\": 2, \"n\": 2}\n").unwrap();
    assert_eq!(values(&labels, "n"), in_order);
    // A row may also belong to a skipped file.
    let labels = read_text("id,n\n1,1\nskipped,text\n2,2\n3,3\n").unwrap();
    assert_eq!(values(&labels, "n"), in_order);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("labels");
    let read = |table: &str, keys: &[&str], left_out: &[&str], column: Option<&str>| {
        std::fs::write(&file, table).unwrap();
        let left_out = left_out.iter().copied().collect();
        let options = SourceOptions { key_column: column.map(str::to_owned), ..SourceOptions::default() };
        let read = read(&file, &options, keys, &left_out, Cancel::default());
        read.map_err(|error| said(&error).split_once("labels`").unwrap().1.to_owned())
    };
    let several = ", line 2: `1` matches several files: `1.jpg`, `1.png`\n\
                   hint: write the path relative to the source, with its extension";
    assert_eq!(read("key,n\n1,1\n", &["1.jpg", "1.png"], &[], None).unwrap_err(), several);
    assert_eq!(read("key,n\n1,1\n", &["1.jpg"], &["1.png"], None).unwrap_err(), several);
    // An exact name takes precedence over a shortened one.
    let labels = read("key,n\n1.png,1\n1,2\n", &["1", "1.png"], &[], None).unwrap();
    assert_eq!(values(&labels, "n"), ColumnValues::Int(vec![2, 1]));

    let labels = read("id,photo\n7,1\n", &["1.jpg"], &[], Some("photo")).unwrap();
    assert_eq!(values(&labels, "id"), ColumnValues::Int(vec![7]));
    let error = read("id,photo\n7,1\n", &["1.jpg"], &[], Some("Photo")).unwrap_err();
    let words = ", line 1: the table has no column `Photo` for the keys; its columns are `id`, `photo`";
    assert_eq!(error, format!("{words}\nhint: pass `--key-column NAME` to select another column"));
}

#[test]
fn big_integers_keep_their_digits() {
    let column = |a: &str, b: &str| {
        let text = format!("key,n\na/1.jpg,{a}\na/2.jpg,{b}\nb/3.jpg,0\n");
        values(&read_text(text).unwrap(), "n")
    };
    assert_eq!(column("9007199254740993", "1"), ColumnValues::Int(vec![9_007_199_254_740_993, 1, 0]));
    assert_eq!(column("9007199254740993", "0.5"), texts(&["9007199254740993", "0.5", "0"]));
    assert_eq!(column("18446744073709551615", "1"), texts(&["18446744073709551615", "1", "0"]));
    let mixed = "{\"key\": \"a/1.jpg\", \"n\": 9007199254740993}\n{\"key\": \"a/2.jpg\", \"n\": 0.5}\n";
    assert!(error(mixed).contains("would lose digits"));
}

#[test]
fn json_has_three_words_for_floats_that_are_no_numbers() {
    let column = |cells: [&str; 3]| {
        let rows = KEYS.iter().zip(cells).map(|(key, cell)| format!("{{\"key\": \"{key}\", \"n\": {cell}}}\n"));
        values(&read_text(rows.collect::<String>()).unwrap(), "n")
    };
    let floats = |cells| match column(cells) {
        ColumnValues::Float(values) => values.into_iter().map(f64::to_bits).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let bits = |values: [f64; 3]| values.map(f64::to_bits).to_vec();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    assert_eq!(floats(["\"NaN\"", "1", "\"-Infinity\""]), bits([nan, 1.0, -inf]));
    assert_eq!(floats(["1", "\"Infinity\"", "0.5"]), bits([1.0, inf, 0.5]));
    assert_eq!(floats(["\"NaN\"", "\"NaN\"", "\"Infinity\""]), bits([nan, nan, inf]));
    assert_eq!(column(["\"NaN\"", "\"cat\"", "\"Infinity\""]), texts(&["NaN", "cat", "Infinity"]));
    let mixed = "{\"key\": \"a/1.jpg\", \"n\": \"NaN\"}\n{\"key\": \"a/2.jpg\", \"n\": \"x\"}\n\
                 {\"key\": \"b/3.jpg\", \"n\": 1}";
    assert!(error(mixed).contains("expected text as in earlier rows, found integers"));
}

#[test]
fn tables_of_many_columns_are_refused_at_once() {
    crate::bounded::run(concat!(module_path!(), "::tables_of_many_columns_are_refused_at_once"), || {
        let names: Vec<_> = (0..1_000_000).map(|column| format!("c{column}")).collect();
        crate::bounded::grows_with(
            100_000,
            |columns| format!("key,{}\n", names[..columns].join(",")),
            |columns, csv| {
                let hint =
                    "hint: remove columns, or store the values of each sample as an array (such as a `.npy` file)";
                let expected =
                    format!(", line 1: the table has {} columns, but at most 1024 are allowed\n{hint}", columns + 1);
                assert_eq!(error(csv), expected);
            },
        );
        let pairs: Vec<_> = names.iter().map(|name| format!("\"{name}\": 1")).collect();
        let json = format!("{{\"key\": \"a/1.jpg\", {}}}", pairs.join(", "));
        assert!(error(&json).starts_with(", line 1: the object has more than 1024 values"));
        let second = format!("{{\"key\": \"a/1.jpg\", \"n\": 1}}\n{json}");
        assert!(error(&second).starts_with(", line 2: the object has more than 1024 values"));
        // A table with the maximum number of columns is accepted in any order of the columns.
        let row = |key: &str, names: &mut dyn Iterator<Item = &String>| {
            let cells: Vec<_> = names.map(|name| format!("\"{name}\": 1")).collect();
            format!("{{\"key\": \"{key}\", {}}}\n", cells.join(", "))
        };
        let few = &names[..1023];
        let text =
            row(KEYS[0], &mut few.iter()) + &row(KEYS[1], &mut few.iter().rev()) + &row(KEYS[2], &mut few.iter());
        assert_eq!(read_text(text).unwrap().columns.len(), 1023);
        assert!(error(vec![b'{'; 65 << 20]).contains("the line has more than 67108864 bytes"));
    });
}

#[test]
fn rows_of_another_order_take_time_by_their_cells() {
    crate::bounded::run(concat!(module_path!(), "::rows_of_another_order_take_time_by_their_cells"), || {
        let keys: Vec<_> = (0..200).map(|sample| format!("{sample:03}.jpg")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("labels");
        let table = |columns| {
            let mut cells: Vec<_> = (0..columns).map(|column| format!("\"c{column:04}\": 1")).collect();
            let mut rows = String::new();
            for key in &keys {
                rows += &format!("{{\"key\": \"{key}\", {}}}\n", cells.join(", "));
                cells.reverse();
            }
            std::fs::write(&file, rows).unwrap();
        };
        crate::bounded::grows_with(255, table, |columns, _| {
            let labels = read(&file, &SourceOptions::default(), &keys, &HashSet::new(), Cancel::default()).unwrap();
            assert_eq!(labels.columns.len(), columns);
        });
    });
}

#[test]
fn csv_rows_end() {
    crate::bounded::run(concat!(module_path!(), "::csv_rows_end"), || {
        let expected = "the row has more than 16777216 bytes\nhint: look for an opening quote without \
                        a closing one";
        // An unclosed quote and a row of commas are refused even if the table is long.
        let rest = [vec![b'x'; 1 << 20], b"\n".to_vec()].concat().repeat(40);
        for (start, line) in [("key,\"n\n", 1), ("key,n\na/1.jpg,1\na/2.jpg,\"1\n", 3)] {
            assert_eq!(error([start.as_bytes(), &rest].concat()), format!(", line {line}: {expected}"));
        }
        for start in ["", "key,n\na/1.jpg,1"] {
            assert!(error([start.as_bytes(), &vec![b','; 64 << 20]].concat()).contains(expected));
        }
        // All rows together may exceed the limit of a single row.
        let cell = "y".repeat(8 << 20);
        let table = format!("key,n\na/1.jpg,{cell}\na/2.jpg,{cell}\nb/3.jpg,{cell}\n");
        assert_eq!(values(&read_text(table).unwrap(), "n"), texts(&[&cell, &cell, &cell]));
    });
}

#[test]
fn a_flag_raised_at_any_time_stops_a_table() {
    let rows: usize = 500;
    let keys: Vec<_> = (0..rows).map(|sample| format!("{sample:03}.jpg")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("labels");
    let csv = keys.iter().map(|key| format!("{key},1,dog\n")).collect::<String>();
    let json = keys.iter().map(|key| format!("{{\"key\": \"{key}\", \"n\": 1}}\n")).collect::<String>();
    for table in [format!("key,n,class\n{csv}"), json] {
        std::fs::write(&file, table).unwrap();
        let read_with = |polls: &Polls| read(&file, &SourceOptions::default(), &keys, &HashSet::new(), polls.cancel());
        let polls = Polls::default();
        read_with(&polls).unwrap();
        assert!(polls.made() > rows as u64, "{} looks at the flag in {rows} rows", polls.made());
        for at in [1, 2, rows as u64 / 2, polls.made()] {
            let polls = Polls::raised_at(at);
            assert!(matches!(read_with(&polls), Err(SourceError::Cancelled)), "look {at}");
            assert_eq!(polls.made(), at, "it stops there");
        }
    }
}

#[test]
fn an_empty_class_is_refused_by_line_and_key() {
    for name in ["label", "class"] {
        let table = format!("key,{name}\na/2.jpg,x\nb/3.jpg, \na/1.jpg,\n");
        let text = error(&table);
        let words = format!("line 3: the column `{name}` has no class for `b/3.jpg` and 1 other sample");
        assert!(text.contains(&words), "{text}");
    }
    let rows = [("a/1.jpg", ""), ("a/2.jpg", "x"), ("b/3.jpg", "y")];
    let text = error(rows.map(|(key, label)| format!("{{\"key\": \"{key}\", \"label\": \"{label}\"}}\n")).concat());
    assert!(text.contains("line 1: the column `label` has no class for `a/1.jpg`"), "{text}");
    // A text column next to the classes may have empty cells.
    read_text("key,label,class\na/1.jpg,x,\na/2.jpg,x,\nb/3.jpg,y,z\n").unwrap();
}

#[test]
fn another_separator_is_named_as_the_likely_cause() {
    for (sign, words) in [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")] {
        let text = error(["key,label", "a/1.jpg,x", "a/2.jpg,x", "b/3.jpg,y"].join("\n").replace(',', sign));
        assert!(
            text.ends_with(&format!(
                "hint: the cells seem to be separated by {words}: separate them with commas instead"
            )),
            "{text}"
        );
    }
}

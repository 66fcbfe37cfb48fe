//! Stands in for HDF5 support if the feature is off. Its errors suggest a shell command that converts the file.

use crate::cubes::cube::{CubeHeader, LoadedCube};
use crate::cubes::error::{CubeError, Result};
use crate::cubes::select::Purpose;
use crate::cubes::source::CubeFile;
use std::ffi::OsStr;
use std::fmt::Write;

/// Python program that saves an array of the file `argv[1]` to the file `argv[2]`: the array `argv[3]` if
/// given, otherwise the largest one. It undoes MATLAB's reversal of the axes and refuses to overwrite a file.
/// It contains no single quotes, so the shell can quote it.
const CONVERT: &str = r#"import sys, h5py, numpy; f = h5py.File(sys.argv[1]); a = []; f.visititems(lambda name, item: a.append(item) if hasattr(item, "shape") else None); d = f[sys.argv[3]] if sys.argv[3:] else max(a, key=lambda item: item.size or 0); numpy.save(open(sys.argv[2], "xb"), d[()].T if "MATLAB_class" in d.attrs else d[()])"#;

/// Quotes arbitrary bytes as one word for bash.
fn quoted(word: &OsStr) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(byte);
    let text = word.to_str().filter(|text| !text.chars().any(char::is_control));
    match text {
        Some(text) if !text.is_empty() && text.bytes().all(|byte| plain(&byte)) => text.to_owned(),
        Some(text) => format!("'{}'", text.replace('\'', r"'\''")),
        None => {
            let mut out = String::from("$'");
            for byte in word.as_encoded_bytes() {
                if plain(byte) {
                    out.push(char::from(*byte));
                } else {
                    let _ = write!(out, r"\x{byte:02x}");
                }
            }
            out + "'"
        }
    }
}

fn refused(source: &CubeFile, want: &Purpose) -> CubeError {
    let from = source.path();
    let to = from.with_extension("npy");
    let mut command = format!("python3 -c '{CONVERT}' {} {}", quoted(from.as_os_str()), quoted(to.as_os_str()));
    let taken = match want.options().variable.iter().find(|name| !name.contains('*')) {
        Some(name) => {
            command += " ";
            command += &quoted(OsStr::new(name));
            ""
        }
        None => " (converts the largest array)",
    };
    let hint = format!(
        "use the Python package (`pip install ./python`) or a build with `--features hdf5` to read HDF5; or convert \
         the file with h5py and move the original out of the source: `{command}`{taken}"
    );
    source.unsupported("this build cannot read HDF5 (or MATLAB v7.3)").with_hint(hint)
}

pub(super) fn peek(source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
    Err(refused(source, want))
}

pub(super) fn load(source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
    Err(refused(source, want))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cubes::{CubeOptions, load};
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;
    use std::process::Command;

    fn arguments(name: &[u8], options: &CubeOptions) -> (PathBuf, Vec<Vec<u8>>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(OsStr::from_bytes(name));
        std::fs::write(&path, b"\x89HDF\r\n\x1a\n").unwrap();
        let hint = load(&path, options).unwrap_err().hint().unwrap().to_string();
        let hint = hint.split_once(" move the original out of the source: `").unwrap().1;
        let command = hint.strip_suffix("` (converts the largest array)").or(hint.strip_suffix('`')).unwrap();
        let script = format!("python3() {{ printf '%s\\0' \"$@\"; }}; {command}");
        let out = Command::new("bash").arg("-c").arg(script).output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        (path, out.stdout.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn the_hint_can_be_pasted() {
        let names: [&[u8]; 6] = [
            b"a.mat",
            b"it's $HOME \"x\".mat",
            b"`id`;!.h5",
            b"line\nbreak\x1b.mat",
            b"\xff\xfe.h5",
            "Würfel.h5".as_bytes(),
        ];
        for name in names {
            for variable in [Vec::new(), vec!["a/it's".to_owned()]] {
                let options = CubeOptions { variable: variable.clone(), ..CubeOptions::default() };
                let (path, found) = arguments(name, &options);
                let mut expected = vec![b"-c".to_vec(), CONVERT.into(), path.as_os_str().as_bytes().to_vec()];
                expected.push(path.with_extension("npy").as_os_str().as_bytes().to_vec());
                expected.extend(variable.into_iter().map(String::into_bytes));
                expected.push(Vec::new());
                assert_eq!(found, expected, "{}", name.escape_ascii());
            }
        }
    }
}

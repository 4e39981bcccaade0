//! An opcode's suffixes, consumed one by one: what nobody asks for is an error.

use super::ty::Ty;

/// The suffixes of one opcode.
pub(crate) struct Mods<'a> {
    parts: Vec<(&'a str, bool)>,
}

impl<'a> Mods<'a> {
    /// Splits `name.a.b` and returns the name with the rest.
    pub(crate) fn split(opcode: &'a str) -> (&'a str, Self) {
        let mut parts = opcode.split('.');
        let name = parts.next().unwrap_or("");
        (name, Self { parts: parts.map(|part| (part, false)).collect() })
    }

    /// Whether the suffix is there; it is consumed.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        match self.parts.iter_mut().find(|(part, used)| !used && *part == name) {
            Some(part) => {
                part.1 = true;
                true
            }
            None => false,
        }
    }

    /// Whether the suffix is there; it is left.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.parts.iter().any(|(part, used)| !used && *part == name)
    }

    /// The first unconsumed suffix that `meaning` knows.
    pub(crate) fn pick<T>(&mut self, meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
        for (part, used) in &mut self.parts {
            if !*used && let Some(value) = meaning(part) {
                *used = true;
                return Some(value);
            }
        }
        None
    }

    /// The next type.
    pub(crate) fn ty(&mut self) -> Option<Ty> {
        self.pick(Ty::from_suffix)
    }

    /// The first suffix that nobody consumed.
    pub(crate) fn left(&self) -> Option<&'a str> {
        self.parts.iter().find(|(_, used)| !used).map(|(part, _)| *part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mods_are_consumed_once_and_leftovers_are_named() {
        let (name, mut mods) = Mods::split("cvt.rn.sat.f16.f32");
        assert_eq!(name, "cvt");
        assert!(mods.flag("sat") && !mods.flag("sat"));
        assert_eq!(mods.ty(), Some(Ty::F16));
        assert_eq!(mods.ty(), Some(Ty::F32));
        assert_eq!(mods.ty(), None);
        assert_eq!(mods.left(), Some("rn"));
    }
}

//! The keys of an object that have a meaning, and the order in which a node sends them.

use std::borrow::Cow;

use crate::json::{Read, Reader};

/// The declared keys of a kind of object.
pub trait Key: Copy {
    const OBJECT: &'static str;
    const NAMES: &'static [&'static str];
    /// One bit for each key that must not be absent.
    const REQUIRED: u64;
    /// One bit for each key that is kept in `extra` if it is not what its row implies.
    const COPIES: u64;

    fn of(name: &[u8]) -> Option<Self>;
    fn at(self) -> u32;

    #[inline]
    fn bit(self) -> u64 {
        1 << self.at()
    }
}

/// Declare the keys of an object, those that are required before those that are optional.
macro_rules! keys {
    ($kind:ident, $object:literal, {$($must:ident $required:literal),*},
     {$($may:ident $optional:literal),*}, copies: [$($copy:ident),*]) => {
        #[derive(Clone, Copy)]
        enum $kind { $($must,)* $($may,)* }

        impl $crate::parse::keys::Key for $kind {
            const OBJECT: &'static str = $object;
            const NAMES: &'static [&'static str] = &[$($required,)* $($optional,)*];
            const REQUIRED: u64 = 0 $(| 1 << $kind::$must as u32)*;
            const COPIES: u64 = 0 $(| 1 << $kind::$copy as u32)*;

            fn of(name: &[u8]) -> Option<Self> {
                let name = std::str::from_utf8(name).ok()?;
                Some(match name {
                    $($required => Self::$must,)*
                    $($optional => Self::$may,)*
                    _ => return None,
                })
            }

            #[inline]
            fn at(self) -> u32 {
                self as u32
            }
        }
    };
}
pub(crate) use keys;

/// The keys of the objects so far, by position.
///
/// A node sends the keys of all objects of a kind in nearly the same order. So a key is first
/// compared with the one that was at its position before, as it was sent, and only otherwise
/// decoded and looked up.
pub struct Order<'a, K> {
    members: Vec<Member<'a, K>>,
}

#[derive(Clone)]
pub struct Member<'a, K> {
    /// As it was sent, with quotes and colon.
    sent: &'a [u8],
    pub name: Cow<'a, [u8]>,
    pub key: Option<K>,
}

impl<K> Default for Order<'_, K> {
    fn default() -> Self {
        Self {
            members: Vec::new(),
        }
    }
}

impl<'a, K: Key> Order<'a, K> {
    /// Read the key of the member at a position of an object.
    #[inline]
    pub fn member(&mut self, position: usize, json: &mut Reader<'a>) -> Read<&Member<'a, K>> {
        let hit = self
            .members
            .get(position)
            .is_some_and(|it| json.rest().starts_with(it.sent));
        if hit {
            json.advance(self.members[position].sent.len());
        } else {
            self.look_up(position, json)?;
        }
        Ok(&self.members[position])
    }

    fn look_up(&mut self, position: usize, json: &mut Reader<'a>) -> Read<()> {
        let start = json.mark();
        let name = json.key()?;
        let member = Member {
            sent: json.since(start),
            key: K::of(&name),
            name,
        };
        match self.members.get_mut(position) {
            Some(before) => *before = member,
            None => self.members.push(member),
        }
        Ok(())
    }
}

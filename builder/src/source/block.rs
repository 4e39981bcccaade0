//! The grammar of an `entry!` block.
//!
//! ```text
//! [target] copy|arithmetic|float|single|f32 name {
//!     args(name: type, …)
//!     hidden(name: type, …)
//!     constants(name: i32|FastDivmod [= canonical value], …)
//!     [barriers(n)] [threads(a block, blocks a multiprocessor)] [allow(local, global, division, float_atomics)]
//! }
//! ```

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Ident, LitInt, Token, braced, parenthesized};

use super::{Constant, Exception, Family, Param};

/// An `entry!` block as written.
pub(super) struct EntryBlock {
    pub(super) target: Option<String>,
    pub(super) family: Family,
    pub(super) name: String,
    pub(super) args: Vec<Param>,
    pub(super) hidden: Vec<Param>,
    pub(super) constants: Vec<Constant>,
    pub(super) barriers: usize,
    pub(super) threads: Option<[u32; 2]>,
    pub(super) allowed: Vec<Exception>,
}

impl Parse for EntryBlock {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut word: Ident = input.parse()?;
        let mut target = None;
        if family(&word).is_none() {
            target = Some(word.to_string());
            word = input.parse()?;
        }
        let family = family(&word).ok_or_else(|| {
            syn::Error::new(
                word.span(),
                "expected `copy`, `arithmetic`, `float`, `single` or `f32` before the name",
            )
        })?;
        let name = input.parse::<Ident>()?.to_string();
        let body;
        braced!(body in input);
        let args = params(&body, "args")?;
        let hidden = params(&body, "hidden")?;
        let constants = constants(&body)?;
        let (mut barriers, mut threads, mut allowed) = (0, None, Vec::new());
        while !body.is_empty() {
            let word: Ident = body.parse()?;
            let inside;
            parenthesized!(inside in body);
            if word == "barriers" {
                barriers = inside.parse::<LitInt>()?.base10_parse()?;
            } else if word == "threads" {
                let a_block = inside.parse::<LitInt>()?.base10_parse()?;
                inside.parse::<Token![,]>()?;
                threads = Some([a_block, inside.parse::<LitInt>()?.base10_parse()?]);
            } else if word == "allow" {
                for item in Punctuated::<Ident, Token![,]>::parse_terminated(&inside)? {
                    let known = Exception::ALL.into_iter().find(|e| item == e.word());
                    allowed.push(known.ok_or_else(|| syn::Error::new(item.span(), unknown_exception()))?);
                }
            } else {
                return Err(syn::Error::new(
                    word.span(),
                    "expected `barriers(n)`, `threads(n, n)` or `allow(…)`",
                ));
            }
        }
        Ok(Self { target, family, name, args, hidden, constants, barriers, threads, allowed })
    }
}

fn unknown_exception() -> String {
    format!("expected one of {}", Exception::ALL.map(|e| format!("`{}`", e.word())).join(", "))
}

fn family(word: &Ident) -> Option<Family> {
    [Family::Copy, Family::Arithmetic, Family::Float, Family::Single, Family::F32]
        .into_iter()
        .find(|f| word == f.word())
}

/// `keyword(` and its inside.
fn group<'a>(body: ParseStream<'a>, keyword: &str) -> syn::Result<syn::parse::ParseBuffer<'a>> {
    let word: Ident = body.parse()?;
    if word != keyword {
        return Err(syn::Error::new(word.span(), format!("expected `{keyword}(…)`")));
    }
    let inside;
    parenthesized!(inside in body);
    Ok(inside)
}

struct Typed(Ident, syn::Type);

impl Parse for Typed {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Self(name, input.parse()?))
    }
}

fn params(body: ParseStream, keyword: &str) -> syn::Result<Vec<Param>> {
    let list = Punctuated::<Typed, Token![,]>::parse_terminated(&group(body, keyword)?)?;
    list.iter()
        .map(|Typed(name, ty)| {
            let text = ty
                .span()
                .source_text()
                .ok_or_else(|| syn::Error::new(ty.span(), "this type has no source text"))?;
            Ok(Param { name: name.to_string(), ty: super::single_spaced(&text) })
        })
        .collect()
}

struct Spec(Constant);

impl Parse for Spec {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name = input.parse::<Ident>()?.to_string();
        input.parse::<Token![:]>()?;
        let ty: Ident = input.parse()?;
        let divisor = ty == "FastDivmod";
        if !divisor && ty != "i32" {
            return Err(syn::Error::new(ty.span(), "a constant is `i32` or `FastDivmod`"));
        }
        let canonical = if input.parse::<Option<Token![=]>>()?.is_some() {
            input.parse::<LitInt>()?.base10_parse()?
        } else {
            crate::holes::usual_value(&name)
        };
        Ok(Self(Constant { name, divisor, canonical, unused: false }))
    }
}

fn constants(body: ParseStream) -> syn::Result<Vec<Constant>> {
    let list = Punctuated::<Spec, Token![,]>::parse_terminated(&group(body, "constants")?)?;
    Ok(list.into_iter().map(|Spec(constant)| constant).collect())
}

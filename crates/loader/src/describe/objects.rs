//! Plans the fields of a batch that are not tensors.

use super::align::followed;
use crate::fields::{Follows, ObjectPlan};
use crate::options::{Align, LoaderOptions};
use shardpack_format::{FieldKind, Schema, bug};
use shardpack_reader::{Error, Result};

pub(crate) fn plan(schema: &Schema, options: &LoaderOptions) -> Result<Vec<ObjectPlan>> {
    let is_object = |(_, align): &&(String, Align)| !matches!(align, Align::Mask { .. });
    let aligned = options.view.align.iter().filter(is_object).map(|(name, _)| name);
    let mut names: Vec<&String> = options.output.objects.iter().collect();
    for name in aligned {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let number_of = |name: &str| names.iter().position(|known| **known == name);
    let mut objects = Vec::new();
    for name in &names {
        let field = schema.fields().iter().find(|field| field.name == **name);
        let objects_of = |kind| matches!(kind, FieldKind::Array | FieldKind::Text | FieldKind::Json | FieldKind::Bytes);
        let Some((field, position)) = field.filter(|field| objects_of(field.kind)).zip(schema.stored_position(name))
        else {
            let reason = field.map_or("the dataset has no field with this name".to_owned(), |field| {
                format!("its kind is `{}`, but must be array, text, JSON or bytes", field.kind)
            });
            return Err(Error::usage(format!("field `{}` cannot be loaded as objects: {reason}", name.escape_debug())));
        };
        let align = options.view.align.iter().find(|(known, _)| known == *name).map(|(_, align)| align);
        let follows = match align {
            None => Follows::Nothing,
            Some(Align::Mask { .. }) => {
                return Err(Error::usage(format!(
                    "field `{}` is aligned as a mask, so it cannot be loaded as objects",
                    name.escape_debug()
                )));
            }
            Some(Align::Rows { of }) => {
                Follows::Boxes(number_of(of).unwrap_or_else(|| bug("rows follow a field without boxes")))
            }
            Some(align) => Follows::Picture {
                align: align.clone(),
                picture: Box::new(followed(schema, options, name, align.picture())?),
                boxes: align.rows().and_then(|of| number_of(of)),
            },
        };
        objects.push(ObjectPlan { name: (*name).clone(), kind: field.kind, position, follows });
    }
    Ok(objects)
}

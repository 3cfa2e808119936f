package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
)

// protobufV2 and protobufV3 turn a document's JSON into the protobuf form.
func protobufV2(data []byte) ([]byte, error) {
	doc, err := openapi_v2.ParseDocument(data)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(doc)
}

func protobufV3(data []byte) ([]byte, error) {
	doc, err := openapi_v3.ParseDocument(data)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(doc)
}

// An object is decoded JSON.
type object = map[string]any

// encodeV2 returns the v2 document of all versions as JSON, converted from the
// v3 document of the same.
func (v *view) encodeV2() ([]byte, error) {
	doc, err := v.buildV3(nil)
	if err != nil {
		return nil, err
	}
	data, err := encode(doc)
	if err == nil {
		data, err = v.withSchemas(data, nil)
	}
	if err != nil {
		return nil, err
	}
	var v3 object
	if err = json.Unmarshal(data, &v3); err != nil {
		return nil, fmt.Errorf("convert OpenAPI document: %w", err)
	}
	components, _ := v3["components"].(object)   // we made it
	schemas, _ := components["schemas"].(object) // we made it
	paths, _ := v3["paths"].(object)             // we made it
	security := components["securitySchemes"]    // apiKey is the same in both
	definitions := make(object, len(schemas))
	for name, s := range schemas {
		definitions[name] = schemaToV2(s.(object)) //nolint:errcheck // we made it
	}
	for _, p := range paths {
		pathToV2(p.(object)) //nolint:errcheck // we made it
	}
	data, err = json.Marshal(object{
		"swagger": "2.0", "info": v3["info"], "paths": paths, "definitions": definitions,
		"securityDefinitions": security, "security": []any{object{"BearerToken": []any{}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI v2 document: %w", err)
	}
	return data, nil
}

// schemaToV2 changes a schema in place and returns it.
func schemaToV2(s object) object {
	if ref, ok := s["$ref"].(string); ok {
		s["$ref"] = strings.Replace(ref, schemaPrefix, "#/definitions/", 1)
	}
	if all, ok := s["allOf"].([]any); ok && len(all) == 1 {
		// v2's readers look at what stands beside a $ref
		delete(s, "allOf")
		maps.Copy(s, schemaToV2(all[0].(object))) //nolint:errcheck // we made it
	}
	if _, ok := s["oneOf"]; ok && s["type"] == nil {
		s["type"] = "string"
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "not", "nullable"} {
		delete(s, key) // v2 has no such words
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if child, ok := s[key].(object); ok {
			schemaToV2(child)
		}
	}
	if props, ok := s["properties"].(object); ok {
		for _, p := range props {
			schemaToV2(p.(object)) //nolint:errcheck // we made it
		}
	}
	return s
}

// pathToV2 changes the operations of a path in place.
func pathToV2(item object) {
	for key, v := range item {
		if key == "parameters" {
			parametersToV2(v)
			continue
		}
		op := v.(object) //nolint:errcheck // we made it
		params, _ := op["parameters"].([]any)
		parametersToV2(params)
		if body, ok := op["requestBody"].(object); ok {
			delete(op, "requestBody")
			content := body["content"].(object) //nolint:errcheck // we made it
			params = append(params, object{"in": "body", "name": "body", "required": true, "schema": firstSchema(content)})
			op["consumes"] = mediaTypes(content)
		}
		if len(params) > 0 {
			op["parameters"] = params
		}
		produces := map[string]bool{}
		for _, r := range op["responses"].(object) { //nolint:errcheck // we made it
			response := r.(object) //nolint:errcheck // we made it
			content, ok := response["content"].(object)
			if !ok {
				continue
			}
			delete(response, "content")
			response["schema"] = firstSchema(content)
			for media := range content {
				produces[media] = true
			}
		}
		op["produces"] = slices.Sorted(maps.Keys(produces))
		op["schemes"] = []string{"https"}
	}
}

// firstSchema returns the schema of a content; it is the same for all types.
func firstSchema(content object) object {
	media := mediaTypes(content)
	return schemaToV2(maps.Clone(content[media[0]].(object)["schema"].(object))) //nolint:errcheck // we made it
}

func mediaTypes(content object) []string { return slices.Sorted(maps.Keys(content)) }

// parametersToV2 puts the types of parameters where v2 has them.
func parametersToV2(list any) {
	params, _ := list.([]any) // nil is empty
	for _, p := range params {
		param := p.(object) //nolint:errcheck // we made it
		if s, ok := param["schema"].(object); ok && param["in"] != "body" {
			delete(param, "schema")
			maps.Copy(param, s)
		}
	}
}

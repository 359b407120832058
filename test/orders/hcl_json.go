// SPDX-License-Identifier: Apache-2.0

// Reads the HCL file on stdin with HashiCorp's own parser and prints it as JSON: a body is {"attributes": {name: value},
// "blocks": [{"type", "labels", "body"}]}. What Nomad fills in when it runs a task, like ${attr.unique.hostname}, stays as
// it is written.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

type block struct {
	Type   string   `json:"type"`
	Labels []string `json:"labels"`
	Body   body     `json:"body"`
}

type body struct {
	Attributes map[string]json.RawMessage `json:"attributes"`
	Blocks     []block                    `json:"blocks"`
}

// put gives the name at the end of path the text "${a.b.c}".
func put(into map[string]any, path hcl.Traversal, text string) {
	for i, step := range path {
		var name string
		switch s := step.(type) {
		case hcl.TraverseRoot:
			name = s.Name
		case hcl.TraverseAttr:
			name = s.Name
		default:
			return
		}
		if text += name; i == len(path)-1 {
			into[name] = text + "}"
			return
		}
		text += "."
		next, ok := into[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			into[name] = next
		}
		into = next
	}
}

func values(tree map[string]any) map[string]cty.Value {
	found := map[string]cty.Value{}
	for name, value := range tree {
		if inner, ok := value.(map[string]any); ok {
			found[name] = cty.ObjectVal(values(inner))
		} else {
			found[name] = cty.StringVal(value.(string))
		}
	}
	return found
}

func convert(from *hclsyntax.Body) (body, hcl.Diagnostics) {
	to := body{Attributes: map[string]json.RawMessage{}, Blocks: []block{}}
	for name, attribute := range from.Attributes {
		tree := map[string]any{}
		for _, variable := range attribute.Expr.Variables() {
			put(tree, variable, "${")
		}
		value, wrong := attribute.Expr.Value(&hcl.EvalContext{Variables: values(tree)})
		if wrong.HasErrors() {
			return to, wrong
		}
		text, err := ctyjson.Marshal(value, value.Type())
		if err != nil {
			return to, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: err.Error(), Subject: &attribute.SrcRange}}
		}
		to.Attributes[name] = text
	}
	for _, inner := range from.Blocks {
		converted, wrong := convert(inner.Body)
		if wrong.HasErrors() {
			return to, wrong
		}
		to.Blocks = append(to.Blocks, block{inner.Type, inner.Labels, converted})
	}
	return to, nil
}

func fail(what any) {
	fmt.Fprintln(os.Stderr, what)
	os.Exit(1)
}

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	file, wrong := hclsyntax.ParseConfig(text, "stdin", hcl.InitialPos)
	if wrong.HasErrors() {
		fail(wrong)
	}
	converted, wrong := convert(file.Body.(*hclsyntax.Body))
	if wrong.HasErrors() {
		fail(wrong)
	}
	if err := json.NewEncoder(os.Stdout).Encode(converted); err != nil {
		fail(err)
	}
}

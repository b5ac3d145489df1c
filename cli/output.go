package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"

	"nodekeep.dev/nodekeep/cli/view"
)

// apiVersion is that of what -o json and -o yaml print.
const apiVersion = "nodekeep.dev/v1alpha1"

// The formats that are no printer of genericclioptions.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatCSV   = "csv"
	formatHTML  = "html"
)

// output is the format in which a command prints its answer.
type output struct {
	format        string
	noHeaders     bool
	nameFormat    bool // -o name makes sense: the answer is about Nodes
	reportFormats bool // -o csv and -o html make sense: the answer is a report
}

func (o *output) addFlags(command *cobra.Command) {
	if o.format == "" {
		o.format = formatTable
	}
	command.Flags().StringVarP(&o.format, "output", "o", o.format, "one of "+strings.Join(o.formats(), ", "))
	command.Flags().BoolVar(&o.noHeaders, "no-headers", false, "tables without headers")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.formats(), cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) formats() []string {
	formats := []string{formatTable, formatWide, "json", "yaml"}
	if o.nameFormat {
		formats = append(formats, "name")
	}
	if o.reportFormats {
		formats = append(formats, formatCSV, formatHTML)
	}
	return append(formats, "jsonpath=TEMPLATE")
}

// validateFormat reports what is wrong with the format before anything is read.
func (o *output) validateFormat() error {
	if o.isText() || o.reportFormats && (o.format == formatCSV || o.format == formatHTML) {
		return nil
	}
	_, err := o.printer()
	return err
}

// isText reports whether the answer is text.
func (o *output) isText() bool { return o.format == formatTable || o.format == formatWide }

// printer is for answers that programs read. It has no go-template: with text/template the linker cannot remove unused code, and the program doubles
// in size.
func (o *output) printer() (printers.ResourcePrinter, error) {
	format, template, given := strings.Cut(o.format, "=")
	switch {
	case o.format == "json":
		return &printers.JSONPrinter{}, nil
	case o.format == "yaml":
		return &printers.YAMLPrinter{}, nil
	case o.format == "name" && o.nameFormat:
		return nil, nil // printNodeNames needs none
	case format == "jsonpath" && given:
		printer, err := printers.NewJSONPathPrinter(template)
		if err != nil {
			return nil, asUsage(fmt.Errorf("--output %q: %w", o.format, err))
		}
		printer.AllowMissingKeys(true)
		return printer, nil
	}
	return nil, asUsage(fmt.Errorf("--output %q: must be one of %s", o.format, strings.Join(o.formats(), ", ")))
}

// tablePrinter prints tables one after the other; the headers of equal ones only once.
func (o *output) tablePrinter() printers.ResourcePrinter {
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.format == formatWide, NoHeaders: o.noHeaders})
}

// write writes an answer in whichever format was asked for. For programs it is an object of its kind.
func (o *output) write(c *session, kind string, answer view.Answer) error {
	nodes, named := answer.(interface{ Names() []string })
	switch {
	case o.isText():
		return o.writeDocument(c.Out, answer.Document(c.Now()))
	case o.format == "name" && named:
		return o.printNodeNames(c.Out, nodes.Names()...)
	default:
		return o.writeObject(c.Out, kind, answer)
	}
}

// writeDocument writes an answer as text: facts, then tables.
func (o *output) writeDocument(w io.Writer, document view.Document) error {
	tabs := printers.GetNewTabWriter(w)
	for _, fact := range document.Facts {
		_, _ = fmt.Fprintf(tabs, "%s:\t%s\n", fact.Name, escapeUnprintable(fact.Value, "")) // one line; Flush returns the error
	}
	if err := tabs.Flush(); err != nil {
		return err
	}
	for i, table := range document.Tables {
		if len(table.Rows) == 0 {
			continue
		}
		if i > 0 || len(document.Facts) > 0 {
			_, _ = fmt.Fprintln(w)
		}
		if i < len(document.Titles) && document.Titles[i] != "" && !o.noHeaders {
			_, _ = fmt.Fprintln(w, escapeUnprintable(document.Titles[i], "")+":")
		}
		if err := o.tablePrinter().PrintObj(table, w); err != nil {
			return err
		}
	}
	return nil
}

// writeObject writes any value with JSON tags for programs.
func (o *output) writeObject(w io.Writer, kind string, answer any) error {
	printer, err := o.printer()
	if err != nil {
		return err
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &object.Object); err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	return printer.PrintObj(object, unescaped(w))
}

// printNodeNames writes what other commands take as arguments.
func (o *output) printNodeNames(w io.Writer, nodes ...string) error {
	for _, node := range nodes {
		if _, err := fmt.Fprintln(w, "node/"+node); err != nil {
			return err
		}
	}
	return nil
}
